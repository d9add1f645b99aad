"""Calibrations: fitting, thresholds with a bound on the error, files, and their use by services."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import numpy
import pytest
from hypothesis import given, strategies as st

from aiservices import (
    AiMessage,
    Calibration,
    CalibrationEntry,
    Calibrator,
    ChatReply,
    ChatRequest,
    Decision,
    DefinitionError,
    ModelServerError,
    Result,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.decisions.calibration import logit, sigmoid
from aiservices.decisions.reliability import (
    auroc,
    bins_of,
    brier,
    calibration_error,
    calibration_error_if_perfect,
    find_threshold,
    fit,
    fit_isotonic,
    fit_temperature,
    labels_needed,
    log_loss,
    upper_bound,
)
from aiservices.testing import Calibrated, Case, Labelled, calibrate

PARAMETERS = st.floats(-3, 3)
SHARES = st.lists(st.floats(0.001, 1), min_size=2, max_size=6).map(lambda ws: [w / sum(ws) for w in ws])


def two(probability: float, answer: int) -> Labelled:
    return Labelled((1 - probability, probability), answer)


def drawn(count: int, true: Any, seed: int = 1, sure: float = 1.0) -> list[Labelled]:
    """Draw examples; ``true`` gives the true probability for a stated one. A low ``sure`` gives sure ones."""
    draw = random.Random(seed)
    stated = [0.01 + 0.98 * draw.betavariate(sure, sure) for _ in range(count)]
    return [two(probability, int(draw.random() < true(probability))) for probability in stated]


# calibrators


@given(SHARES, st.data())
def test_corrected_probabilities_have_the_sum_one(shares: list[float], data: st.DataObject) -> None:
    offsets = data.draw(st.lists(PARAMETERS, min_size=len(shares), max_size=len(shares)))
    kinds = [Calibrator(), Calibrator("temperature", (data.draw(st.floats(0.1, 3)), *offsets))]
    if len(shares) == 2:
        kinds.append(Calibrator("platt", (data.draw(PARAMETERS), data.draw(PARAMETERS))))
        kinds.append(Calibrator("isotonic", (0.0, 0.5, 0.2, 0.9)))
    for calibrator in kinds:
        corrected = calibrator.apply(shares)
        assert len(corrected) == len(shares)
        assert math.isclose(sum(corrected), 1)
        assert all(0 < share < 1 for share in corrected)


def test_isotonic_steps_begin_at_their_limits() -> None:
    steps = Calibrator("isotonic", (0.1, 0.5, 0.2, 0.9))
    assert [round(steps.apply((1 - p, p))[1], 6) for p in (0.05, 0.1, 0.49, 0.5, 0.99)] == [
        0.2,
        0.2,
        0.2,
        0.9,
        0.9,
    ]


# measures


def test_measures_of_known_examples() -> None:
    samples = [two(0.8, 1), two(0.4, 0), two(0.6, 0)]
    assert brier(samples) == pytest.approx((0.04 + 0.16 + 0.36) / 3)
    assert log_loss(samples) == pytest.approx(-(math.log(0.8) + math.log(0.6) + math.log(0.4)) / 3)
    assert auroc(samples) == 1.0
    assert auroc([two(0.5, 1), two(0.5, 0)]) == 0.5
    assert auroc([two(0.5, 1)]) is None
    assert auroc([Labelled((0.2, 0.3, 0.5), 1)]) is None
    assert calibration_error([two(0.9, 1), two(0.9, 0)], bins=1) == pytest.approx(0.4)


def test_the_error_of_perfect_probabilities_falls_with_more_examples() -> None:
    few, many = (calibration_error_if_perfect(drawn(count, lambda p: p)) for count in (100, 2000))
    assert many < few / 2


TIED = st.lists(st.tuples(st.sampled_from([0.1, 0.25, 0.4, 0.7, 0.9]), st.integers(0, 1)), min_size=1)


@given(TIED, st.integers(1, 15), st.randoms(use_true_random=False))
def test_equal_probabilities_are_in_the_same_bin(
    pairs: list[tuple[float, int]], bins: int, draw: random.Random
) -> None:
    samples = [two(*pair) for pair in pairs]
    found = bins_of(samples, bins)
    assert [one for each in found for one in each] == sorted((p, bool(answer)) for p, answer in pairs)
    assert len(found) <= bins
    owners = [{p for p, _ in each} for each in found]
    assert sum(map(len, owners)) == len({p for p, _ in pairs})
    error = calibration_error(samples, bins)
    draw.shuffle(samples)
    assert calibration_error(samples, bins) == pytest.approx(error)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=60, unique=True), st.integers(1, 15))
def test_different_probabilities_are_in_bins_of_equal_size(shares: list[float], bins: int) -> None:
    sizes = [len(each) for each in bins_of([two(share, 1) for share in shares], bins)]
    assert len(sizes) == min(bins, len(shares))
    assert max(sizes) - min(sizes) <= 1


def test_one_stated_probability_has_one_observed_frequency() -> None:
    samples = [two(0.75, 1)] * 15 + [two(0.75, 0)] * 5
    assert calibration_error(samples) == 0.0


# fits


@given(TIED)
def test_steps_are_the_best_non_decreasing_fit(pairs: list[tuple[float, int]]) -> None:
    """Compare with the formula of the minima of maxima over the means of intervals."""
    stated = sorted({p for p, _ in pairs})
    labels = [[answer for p, answer in pairs if p == one] for one in stated]

    def mean(start: int, end: int) -> float:
        block = [answer for each in labels[start : end + 1] for answer in each]
        return sum(block) / len(block)

    count = len(stated)
    best = [
        max(min(mean(start, end) for end in range(place, count)) for start in range(place + 1))
        for place in range(count)
    ]
    margin = 0.5 / len(pairs)
    calibrator = fit_isotonic([two(*pair) for pair in pairs])
    for share, value in zip(stated, best, strict=True):
        corrected = calibrator.apply((1 - share, share))[1]
        assert corrected == pytest.approx(min(max(value, margin), 1 - margin), abs=2e-6)


@given(TIED, st.randoms(use_true_random=False))
def test_steps_do_not_depend_on_the_order_of_examples(
    pairs: list[tuple[float, int]], draw: random.Random
) -> None:
    samples = [two(*pair) for pair in pairs]
    steps = fit_isotonic(samples)
    draw.shuffle(samples)
    assert fit_isotonic(samples) == steps


def test_equal_probabilities_get_the_mean_of_their_labels() -> None:
    for samples in ([two(0.6, 0), two(0.6, 1)], [two(0.6, 1), two(0.6, 0)]):
        assert fit_isotonic(samples).apply((0.4, 0.6))[1] == 0.5


def test_a_slope_and_an_offset_are_found() -> None:
    calibrator, corrected = fit(drawn(900, lambda p: sigmoid(2 * logit(p) + 1)))
    slope, offset = calibrator.parameters
    assert (calibrator.kind, slope, offset) == ("platt", pytest.approx(2, abs=0.4), pytest.approx(1, abs=0.4))
    assert calibration_error(corrected) < 0.05


def test_good_probabilities_are_left_as_they_are() -> None:
    kinds = [fit(drawn(200, lambda p: p, seed))[0].kind for seed in range(20)]
    assert kinds.count("none") >= 14


def test_steps_are_fitted_to_many_examples() -> None:
    samples = drawn(3000, lambda p: 0.1 if p < 0.3 else 0.5 if p < 0.7 else 0.9)
    calibrator, _ = fit(samples)
    assert calibrator.kind == "isotonic"
    assert calibrator.apply((0.5, 0.5))[1] == pytest.approx(0.5, abs=0.06)
    count = len(calibrator.parameters) // 2
    values = fit_isotonic(samples).parameters[count:]
    assert list(values) == sorted(values)


def test_a_leaning_to_one_of_several_answers_is_corrected() -> None:
    draw = random.Random(3)
    samples = []
    for _ in range(300):
        weights = [draw.random() + 0.05 for _ in range(3)]
        true = [weight / sum(weights) for weight in weights]
        stated = [true[0] * 4, true[1], true[2]]  # it leans to the first answer
        shares = tuple(share / sum(stated) for share in stated)
        samples.append(Labelled(shares, draw.choices(range(3), true)[0]))
    calibrator, corrected = fit(samples)
    assert calibrator.kind == "temperature"
    assert log_loss(corrected) < log_loss(samples) - 0.05
    _, first, second, third = fit_temperature(samples).parameters
    assert first < second - 0.5
    assert first < third - 0.5


@pytest.mark.parametrize("samples", [[two(0.9, 1)] * 50, [two(0.9, 1), two(0.1, 0)]])
def test_too_few_examples_are_not_fitted(samples: list[Labelled]) -> None:
    assert fit(samples) == (Calibrator(), samples)


# thresholds


@pytest.mark.parametrize(
    ("errors", "accepted", "bound"), [(0, 59, 0.0495), (0, 58, 0.0503), (2, 100, 0.0616), (10, 100, 0.1637)]
)
def test_the_bound_is_that_of_clopper_and_pearson(errors: int, accepted: int, bound: float) -> None:
    assert upper_bound(errors, accepted, 0.95) == pytest.approx(bound, abs=0.00006)


def test_the_bound_has_limits() -> None:
    assert (upper_bound(5, 5, 0.95), labels_needed(0.05, 0.95)) == (1.0, 59)
    assert upper_bound(10_000, 1_000_000, 0.95) == pytest.approx(0.01017, abs=0.0001)


def test_a_threshold_keeps_its_promise_in_draws() -> None:
    pool = drawn(2000, lambda p: p, sure=0.3)
    draw, broken, found = random.Random(4), 0, 0
    for _ in range(60):
        threshold = find_threshold([draw.choice(pool) for _ in range(300)], 0.1, 0.95)
        if threshold is not None:
            found += 1
            accepted = [one for one in pool if one.confidence >= threshold.value]
            broken += sum(not one.is_right for one in accepted) / len(accepted) > 0.1
    assert found > 30
    assert broken <= 7  # at most 5 % of 60 are expected


def test_without_enough_examples_there_is_no_threshold() -> None:
    assert find_threshold([two(0.99, 1)] * 58, 0.05, 0.95) is None
    threshold = find_threshold([two(0.99, 1)] * 59, 0.05, 0.95)
    assert threshold is not None
    assert (threshold.value, threshold.coverage, threshold.error) == (0.5, 1.0, 0.0)


# the calibration of a method


class Team(Enum):
    BILLING = "billing"
    SUPPORT = "support"


@dataclass
class Triage:
    team: Decision[Team]
    urgent: bool


class Desk(Protocol):
    @user_message("Is this spam?\n\n{{message}}")
    def is_spam(self, message: str) -> Decision[bool]: ...
    @user_message("Triage.\n\n{{ticket}}")
    def triage(self, ticket: str) -> Result[Triage]: ...
    @user_message("Good?\n\n{{text}}")
    async def good(self, text: str) -> bool: ...


def replies(request: ChatRequest) -> ChatReply:
    """Answer by the number at the end of the prompt, which is the stated probability."""
    share = float(request.messages[-1].text.split()[-1])
    if "Triage" in request.messages[0].text:
        text = json.dumps({"team": "support", "urgent": share >= 0.5})
        shares = {
            "$.team": (("billing", 0.3), ("support", 0.7)),
            "$.urgent": ((True, share), (False, 1 - share)),
        }
    else:
        text = json.dumps({"value": share >= 0.5})
        shares = {"$.value": ((True, share), (False, 1 - share))}
    return ChatReply(AiMessage(text), probabilities=shares, model="stub-1")


def model() -> ScriptedChatModel:
    return ScriptedChatModel(replies, name="stub")


def cases(count: int, key: str, lean: float = 1.0) -> list[Case[Any]]:
    draw = random.Random(5)
    made = []
    for _ in range(count):
        stated = 0.02 + 0.96 * draw.betavariate(0.4, 0.4)
        made.append(Case({key: f"text {stated:.4f}"}, draw.random() < sigmoid(2 * logit(stated) + lean)))
    return made


@pytest.fixture(scope="module")
def calibrated() -> Calibrated:
    return calibrate(create(Desk, model()).is_spam, cases(400, "message"), error=0.1)


def test_a_method_is_calibrated_by_labelled_cases(calibrated: Calibrated) -> None:
    (entry,) = calibrated.calibration.entries
    assert (entry.method, entry.path, entry.options) == ("Desk.is_spam", "$", (True, False))
    assert (entry.source, entry.model, entry.n) == ("decisions", "stub-1", 400)
    assert entry.calibrator.kind == "platt"
    before, after = entry.before["log_loss"], entry.after["log_loss"]
    assert before is not None
    assert after is not None
    assert after < before
    assert entry.threshold is not None
    text = str(calibrated)
    assert "Desk.is_spam $: 400 examples, stub-1, decisions" in text
    assert "threshold  answered  wrong   bound" in text
    svg = calibrated.svg()
    assert svg.startswith("<svg ")
    assert svg.count("<circle") > 20
    assert ">before</text>" in svg
    assert "stated probability of False" in svg


def test_a_plot_without_a_correction_has_one_set_of_points() -> None:
    made = calibrate(create(Desk, model()).is_spam, cases(5, "message"))
    assert made.svg().count("<circle") == 1
    assert ">before</text>" not in made.svg()


def test_a_service_uses_a_calibration_from_a_file(calibrated: Calibrated, tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    calibrated.write(path)
    decision = create(Desk, model(), calibration=path).is_spam("text 0.45")
    assert (decision.value, decision.calibrated) == (True, True)  # it leans to false
    assert decision.probabilities[True] > 0.55
    assert decision.at(0.9) is None
    assert create(Desk, model(), calibration=str(path)).is_spam("text 0.95").at() is True
    plain = create(Desk, model()).is_spam("text 0.45")
    assert (plain.value, plain.calibrated) == (False, False)


def test_the_file_has_no_texts_and_keeps_other_entries(calibrated: Calibrated, tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    other = replace(calibrated.calibration.entries[0], method="Other.method")
    Calibration((other,)).write(path)
    calibrated.write(path)
    again = Calibration.read(path)
    assert [entry.method for entry in again.entries] == ["Desk.is_spam", "Other.method"]
    assert again.entries[0] == calibrated.calibration.entries[0]
    assert "text 0" not in path.read_text()


def test_records_are_calibrated_by_field() -> None:
    labelled = [Case(one.arguments, {"urgent": one.expected}) for one in cases(200, "ticket")]
    made = calibrate(create(Desk, model()).triage, labelled)
    assert list(made.samples) == ["$.urgent"]  # the other field has no labels


def test_async_methods_are_calibrated() -> None:
    made = calibrate(create(Desk, model()).good, cases(60, "text"))
    assert made.calibration.entries[0].method == "Desk.good"


def test_labels_may_be_scalars_of_numpy_and_values_of_an_enum() -> None:
    plain = cases(60, "message")
    scalars = [Case(one.arguments, numpy.bool_(one.expected)) for one in plain]
    desk = create(Desk, model())
    assert str(calibrate(desk.is_spam, scalars)) == str(calibrate(desk.is_spam, plain))
    team = numpy.str_("support")
    labelled = [Case({"ticket": f"text 0.{n}"}, {"team": team, "urgent": True}) for n in range(1, 9)]
    assert [entry.path for entry in calibrate(desk.triage, labelled).calibration.entries] == [
        "$.team",
        "$.urgent",
    ]


def test_failed_calls_are_counted() -> None:
    labelled = [*cases(60, "message"), Case({"message": "text nothing"}, True)]

    def sometimes(request: ChatRequest) -> ChatReply:
        if request.messages[-1].text.endswith("nothing"):
            raise ModelServerError("down")
        return replies(request)

    made = calibrate(create(Desk, ScriptedChatModel(sometimes), retry=None).is_spam, labelled)
    assert len(made.failed) == 1
    assert "1 calls failed" in str(made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": print}, "is not a method of a service"),
        ({"cases": []}, "there are no cases"),
        ({"cases": [({}, True)]}, r"write Case\(\{…\}, expected\)"),
        ({"error": 0}, "error is 0; it must be between 0 and 1"),
        (
            {"cases": [Case({"message": "text 0.5"}, "spam")]},
            "the expected answer of the first case is 'spam'",
        ),
    ],
)
def test_wrong_arguments_of_calibrate(arguments: dict[str, Any], message: str) -> None:
    settings = {"method": create(Desk, model()).is_spam, "cases": cases(3, "message"), **arguments}
    with pytest.raises(DefinitionError, match=message):
        calibrate(settings.pop("method"), settings.pop("cases"), **settings)


# what does not fit


def entry_of(calibrated: Calibrated, **changes: Any) -> Calibration:
    return Calibration((replace(calibrated.calibration.entries[0], **changes),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": (True, None)}, r"its possible answers were \[True, None\], and are \[True, False\]"),
        ({"question": "0" * 64}, "its prompt, or a description in its type, has changed"),
        ({"path": "$.spam"}, r"the calibration is for \$\.spam, which the method does not return"),
    ],
)
def test_a_calibration_of_another_question_is_refused(
    calibrated: Calibrated, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        create(Desk, model(), calibration=entry_of(calibrated, **changes))


@pytest.mark.parametrize("changes", [{"model": "stub-2"}, {"source": "logprobs"}])
def test_a_calibration_of_another_model_is_an_error_of_the_call(
    calibrated: Calibrated, changes: dict[str, Any]
) -> None:
    other = entry_of(calibrated, **changes)
    with pytest.raises(DefinitionError, match=r"and the reply is from stub-1 \(decisions\)"):
        create(Desk, model(), calibration=other).is_spam("text 0.45")
    raw = create(Desk, model(), calibration=replace(other, on_mismatch="raw")).is_spam("text 0.45")
    assert (raw.value, raw.calibrated) == (False, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not a calibration file"),
        ("[]", "it is not a calibration file"),
        ('{"format": 9}', "it has the format 9, this version reads 1"),
        ('{"format": 1}', "'calibrations' is missing"),
        ('{"format": 1, "calibrations": [{"method": "m"}]}', "it is not a calibration file"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "desk.json"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=message):
        create(Desk, model(), calibration=path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"it cannot be read: No such file"):
        create(Desk, model(), calibration=tmp_path / "none.json")


def test_wrong_parameters_in_a_file_are_refused(calibrated: Calibrated, tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    entry_of(calibrated, calibrator=Calibrator("platt", (1.0,))).write(path)
    with pytest.raises(DefinitionError, match="it is not a calibration file"):
        Calibration.read(path)
    with pytest.raises(DefinitionError, match="on_mismatch is 'other'"):
        Calibration((), on_mismatch="other")  # type: ignore[arg-type]


# thresholds of a service


def test_a_threshold_decides_a_bool_and_at_of_a_decision() -> None:
    desk = create(Desk, model(), thresholds={"triage.urgent": 0.8, "is_spam": 0.6})
    result = desk.triage("text 0.7")
    assert (result.value.urgent, desk.triage("text 0.8").value.urgent) == (False, True)
    assert [coercion.path for coercion in result.coercions] == ["$.urgent"]
    assert (desk.is_spam("text 0.55").value, desk.is_spam("text 0.55").at()) == (True, None)
    assert desk.is_spam("text 0.65").at() is True


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"is_spma": 0.5}, "'is_spma' is not an answer; did you mean 'is_spam'?"),
        ({"zzz": 0.5}, r"'zzz' is not an answer; they are: is_spam, triage\.team, triage\.urgent, good"),
        ({"is_spam": 1.5}, r"'is_spam' is 1\.5; it must be from 0 to 1"),
    ],
)
def test_wrong_thresholds_are_refused(thresholds: dict[str, float], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        create(Desk, model(), thresholds=thresholds)


def test_an_enum_has_no_threshold() -> None:
    class Route(Protocol):
        @user_message("{{text}}")
        def team(self, text: str) -> Team: ...

    with pytest.raises(DefinitionError, match="return a Decision, whose at"):
        create(Route, model(), thresholds={"team": 0.5})


def test_an_entry_is_shown_as_a_table() -> None:
    entry = CalibrationEntry("S.m", "$", "", (True, False), "logprobs", "m", 9, Calibrator())
    assert "none keeps the error below the limit" in str(Calibration((entry,)))
    assert str(Calibration(())) == "no calibrations"
