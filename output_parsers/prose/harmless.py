"""Words that may stand around an answer without changing it, by language.

A value that is named in a sentence counts only if every other word of the sentence is in one of these lists.
A list of the words that deny a value could never be complete. All words must be from one language, because
a word that is harmless in one language may deny the answer in another: "tak" is yes in Polish and not in
Malay. So the lists contain no such words, and no words that limit, weaken or move a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

from ..lazy_regex import join_lines, lazy_regex

# Articles, pronouns, verbs of answering, the names of common questions, and words of agreement.
_HARMLESS = {
    "en": """
        extracted requested resulting took lasted
        assistant
        a an the this that these those it its it's that's here here's there there's i i'm i'd i've my we our
        is are was were has of for in to as with on so then thus therefore hence overall
        accordingly based say says said think believe choose chose pick picked select selected classify
        classified classifies label labels labeled labelled labeling rate rated rating tag tagged categorize
        categorized categorise categorised identify identified consider considered determine determined
        conclude concluded assign assigned assigning answer answered answers answering reply respond return
        returns returned give given gives go going read reads describe describes mark marked detect detected
        express expresses expressed expressing convey conveys show shows indicate indicates suggest suggests
        match matches fall falls under belong belongs fit fits apply applies would get got find found count
        counted counting calculate calculated compute computed total altogether sum amount result results
        solution output response category class classification classifier type kind sentiment tone mood
        emotion intent topic subject department team queue language priority urgency severity level risk score
        grade grading status state decision verdict prediction predicted value choice option letter number
        price cost age final correct right best main clear clearly definitely certainly really indeed just
        exactly precisely simply very sure okay ok course please checking reviewing reading analyzing
        analysing text texts sentence review reviews message comment post tweet email mail ticket tickets
        document documents file image article paragraph request query customer user author writer
        speaker input statement claim name title person people item items record entry case content context
        section data word words order product story process temperature length height weight
        width size depth speed distance duration time date recommendation recommend everything thing after
        description costs weighs measures equals unfortunately sadly fortunately luckily
        """,
    "de": """
        genannten genannte erwähnten gibt einträge
        im stehen rechnungsdatum rechnung termin beginnt endet dauert kostet wiegt
        basierend auf werden genannt entspricht
        der die das den dem des sentiment ein eine einen einem einer es ist sind war ich wir mein meine dieser diese
        dieses diesem diesen hier also daher somit deshalb folglich als zu für in mit antwort lautet lösung
        ergebnis kategorie klasse typ art stimmung gefühl sprache thema priorität dringlichkeit stufe wert
        wahl option buchstabe zahl anzahl summe betrag preis kosten alter richtig richtige richtigen korrekt
        korrekte korrekten endgültige text satz bewertung rezension nachricht kommentar frage kunde aussage
        name person wähle wählen klassifiziere eingestuft einzustufen denke glaube würde sagen gehört passt
        beträgt sehr eindeutig klar ja datum geburtsdatum uhrzeit insgesamt gesamt es's
        """,
    "fr": """
        mentionnés mentionnées cités citées
        au total facture commence finit dure coûte pèse rendez-vous réunion
        comme basé équivaut fait partie
        le la les l un une ce cette ces c'est c est sont était je j'ai nous voici donc ainsi pour dans
        de du des d à réponse résultat solution catégorie classe type sentiment langue sujet priorité
        urgence niveau valeur choix option lettre nombre total somme montant prix coût âge bonne correcte
        exacte finale juste texte phrase avis message commentaire question client affirmation nom personne
        choisis pense crois dirais classe classé classée appartient correspond très clairement oui date
        naissance heure est correct vrai
        """,
    "es": """
        mencionadas mencionados
        factura comienza empieza termina dura cuesta pesa reunión
        está están como basado basada según siguiente siguientes
        el la los las un una este esta esto es son era yo mi aquí por tanto entonces para de del a respuesta
        resultado solución categoría clase tipo sentimiento tono idioma tema prioridad urgencia nivel valor
        opción letra número total suma cantidad precio costo edad correcta correcto final texto frase reseña
        opinión mensaje comentario pregunta cliente afirmación nombre persona elijo creo pienso diría
        clasifico clasificado clasificada verdad cierto pertenece corresponde muy claramente fecha nacimiento hora hay
        """,
    "it": """
        fattura inizia finisce dura costa pesa riunione
        come ce n'è sono basato basata secondo ammonta
        il lo la i gli le l un uno una questo questa è sono era io mio mia ecco quindi dunque perciò per in
        del della a risposta risultato soluzione categoria classe tipo sentimento tono lingua tema priorità
        urgenza livello valore scelta opzione lettera numero totale somma importo prezzo costo età corretta
        corretto giusta finale testo frase recensione messaggio commento domanda cliente affermazione nome
        persona scelgo penso credo direi classifico classificato classificata appartiene corrisponde molto
        chiaramente data nascita
        """,
    "pt": """
        fatura começa termina dura custa pesa reunião
        a
        está estão como com base
        o os as um uma este esta isto isso é são era eu meu minha aqui portanto então para em de do da
        resposta resultado solução categoria classe tipo sentimento tom idioma tema prioridade urgência
        nível valor escolha opção letra número total soma quantia preço custo idade correta correto certa
        final texto frase avaliação mensagem comentário pergunta cliente afirmação nome pessoa escolho acho
        penso creio diria classifico classificado classificada pertence corresponde muito claramente data
        nascimento hora verdade
        """,
    "nl": """
        factuur begint eindigt duurt kost weegt vergadering
        op basis bedraagt luidt
        de het een dit dat deze is zijn was ik wij mijn hier dus daarom voor in van als met antwoord luidt
        resultaat oplossing categorie klasse type sentiment toon taal onderwerp prioriteit urgentie niveau
        waarde keuze optie letter getal aantal totaal som bedrag prijs kosten leeftijd juiste correcte
        uiteindelijke tekst zin recensie beoordeling bericht vraag klant bewering naam persoon kies denk
        geloof zou zeggen classificeer geclassificeerd behoort past zeer heel duidelijk datum geboortedatum
        tijd er klopt
        """,
    "sv": """
        det den de ett är var jag vi min detta denna här alltså därför för i av som svaret svar resultatet
        kategori kategorin klass typ känsla ton språk ämne prioritet nivå värde val alternativ bokstav antal
        summa belopp pris ålder rätt rätta korrekta slutliga texten text recensionen meddelandet frågan kunden
        väljer tror skulle säga klassificerar tillhör mycket tydligt datum födelsedatum tid
        """,
    "da": """
        det den de er var jeg vi min dette denne her altså derfor for i af som svaret svar resultatet
        kategori kategorien klasse type stemning tone sprog emne prioritet niveau værdi valg mulighed bogstav
        antal sum beløb pris alder rigtige korrekte endelige teksten tekst anmeldelsen beskeden spørgsmålet
        kunden vælger tror ville sige klassificerer tilhører meget tydeligt dato fødselsdato tid
        """,
    "no": """
        det den de er var jeg vi min dette denne her altså derfor for i av som svaret svar resultatet
        kategori kategorien klasse type stemning tone språk emne prioritet nivå verdi valg alternativ bokstav
        antall sum beløp pris alder riktige riktig korrekte endelige teksten tekst anmeldelsen meldingen
        spørsmålet kunden velger tror ville klassifiserer tilhører veldig tydelig dato fødselsdato tid
        """,
    "pl": """
        razem faktury zaczyna trwa kosztuje waży spotkanie
        oto wynosi klasyfikuję tekstu
        to jest są był była ja moja mój ten ta więc zatem dlatego odpowiedź odpowiedzią wynik rozwiązanie
        kategoria klasa typ sentyment nastrój ton język temat priorytet pilność poziom wartość wybór opcja
        litera liczba suma kwota cena koszt wiek poprawna prawidłowa właściwa ostateczna tekst zdanie recenzja
        opinia wiadomość komentarz pytanie klient osoba wybieram myślę uważam bardzo data urodzenia
        """,
    "cs": """
        je jsou byl byla já můj moje tento tato tedy proto odpověď výsledek řešení kategorie třída typ nálada
        tón jazyk téma priorita naléhavost úroveň hodnota volba možnost písmeno číslo počet součet částka cena
        věk správná konečná text věta recenze zpráva komentář otázka zákazník osoba volím myslím velmi datum
        narození
        """,
    "ru": """
        итого счёта начинается длится стоит весит встреча
        вот равна равен равно составляет классифицирую
        это этот эта есть был была я мой моя вот итак поэтому следовательно ответ ответом результат решение
        категория класс тип тональность настроение тон язык тема приоритет срочность уровень значение выбор
        вариант буква число количество сумма цена стоимость возраст правильный правильная верный окончательный
        итоговый текст предложение отзыв сообщение комментарий вопрос клиент имя человек выбираю думаю считаю
        относится верно очень явно дата рождения всего в к
        """,
    "uk": """
        це цей ця є був була я мій моя ось отже тому відповідь відповіддю результат рішення категорія клас тип
        тональність настрій тон мова тема пріоритет терміновість рівень значення вибір варіант буква число
        кількість сума ціна вік правильна остаточна текст речення відгук повідомлення питання клієнт обираю
        думаю вважаю дуже дата народження
        """,
    "tr": """
        bu şu o bir cevap cevabı yanıt yanıtı sonuç çözüm kategori kategorisi sınıf tür duygu ton dil konu
        öncelik aciliyet seviye düzey değer seçim seçenek harf sayı sayısı toplam tutar fiyat yaş doğru son
        metin cümle yorum mesaj soru müşteri kişi dir dır tarih saat
        """,
    "id": """
        ini itu adalah ialah saya jadi maka untuk jawaban jawabannya hasil solusi kategori kelas jenis
        sentimen bahasa topik prioritas urgensi tingkat nilai pilihan opsi huruf angka jumlah total harga
        usia umur benar akhir teks kalimat ulasan pesan komentar pertanyaan pelanggan orang memilih sangat
        tanggal
        """,
    "ar": """
        الإجابة الاجابة الجواب هو هي هذا هذه النتيجة الحل الفئة التصنيف النوع المشاعر اللغة الموضوع الأولوية
        المستوى القيمة الاختيار الخيار الحرف الرقم العدد المجموع السعر العمر الصحيحة الصحيح النهائية النص
        المراجعة الرسالة السؤال التاريخ صحيح
        """,
    "hi": """
        यह है हैं उत्तर जवाब परिणाम श्रेणी वर्ग प्रकार भावना भाषा विषय प्राथमिकता स्तर मूल्य विकल्प अक्षर
        संख्या कुल कीमत आयु सही अंतिम पाठ वाक्य समीक्षा संदेश प्रश्न का की के
        """,
}
# Words of languages without spaces; a run of such characters must consist of them.
_HARMLESS_RUNS = """
    正确答案 正確答案 最终答案 最終答案 答案 回答 结果 結果 情感 情绪 情緒 类别 類別 分类 分類 类型 類型
    优先级 優先級 级别 級別 等级 等級 标签 標籤 语言 語言 主题 主題 意图 意圖 选项 選項 选择 選擇 选 選 这条
    這條 这个 這個 这 這 该 該 条 句 文本 评论 評論 消息 邮件 郵件 内容 內容 用户 用戶 客户 客戶 我 认为
    認為 属于 屬於 应选 為 为 是 的 了 总共 總共 共 一共 有 数量 數量 总数 總數 日期 年龄 年齡 岁 歲 个 個
    人 元 次 件 位 こちら これ この 答え 回答 正解 結論 感情 分類 カテゴリ カテゴリー 種類 優先度 レベル
    言語 ラベル レビュー テキスト 文章 は が の を です である だ に と 合計 全部で さん 円 人 個 件 回 歳
    テキストによると によると 本文 数 数値 件数 日付 時間 時刻 最終 最终 最終的な 情感倾向 根据 根據 我的 时间 날짜 시간 합계 최종 개수 총합 수
    정답 답변 답 결과 감정 분류 카테고리 유형 우선순위 언어 라벨 리뷰 텍스트 은 는 이 가 의 을 를 입니다
    이다 총 명 개 원 살 세 번 건 价格 價格 価格 値段 가격 评分 評分 スコア 得分 점수
"""
_RUN = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]"
_RUN_CHARACTER = lazy_regex(_RUN)
# Faces and marks that agree with an answer or decorate it; an ironic or sad face may take it back.
_MARKS = frozenset("✅✓✔☑👍🙂😊😀😃😄😁😍🥰🎉⭐🌟🔥📊📈💯👉➡→⇒•◦‣·▪●|")
_PUNCTUATION = frozenset(".,;:!…\"'`*_“”„‘’«»‹›()[]{}<>（）【】「」『』。，、：；！．｡-‐‑–—/\\#=")
_TOKEN = lazy_regex(
    rf"[!<>=~]{{2,}}|{_RUN}+|[^\W\d_](?:(?!{_RUN})[^\W_]|['’](?=[^\W\d_])|(?<=[^\W\d_])-(?=[^\W\d_]))*|\S"
)
# Characters without width, how an emoji is drawn, and the dot of a small Turkish İ.
_IGNORED = lazy_regex("[\u200b-\u200f\u2060\ufeff\ufe0e\ufe0f\u0307]")


def find_unknown_word(text: str, known: Collection[str] = ()) -> str | None:
    """Return the first word or sign that is not known to be harmless beside an answer, or None.

    The words of ``known``, in lower case, are harmless too, such as the units that a declaration names.
    """
    words_of, languages = _languages_by_word(), _ALL
    for match in _TOKEN.finditer(_IGNORED.sub("", text).casefold().replace("’", "'")):
        token = match[0]
        if token in known or (len(token) == 1 and (token in _PUNCTUATION or token in _MARKS)):
            continue
        of_word = _ALL if _harmless_runs().fullmatch(token) else words_of.get(token, 0)
        languages &= of_word
        if not languages:
            return token
    return None


# The first words of a question, and words that say where something is or how much, and not what the answer is.
_ASKING = frozenset("is was are were would has have am ist war sind würde sont était zou är var".split())
_RELATING = frozenset(
    """
    of for in to with as on under after very there comme como come zu sehr für mit als très dans pour muy para por molto per muito em zeer
    heel voor met zou mycket till för meget til veldig bardzo velmi очень дуже çok sangat
    """.split()
)
# Labels of what was asked, and words about what somebody else chose or what is to be answered.
_OTHER_LABEL = lazy_regex(
    r"(?<!\w)(?:(?:input|query|question|user|prompt|request|subject|given|eingabe|frage|nutzer|benutzer|anfrage|betreff|entrée|question|utilisateur|requête"
    r"|sujet|objet|entrada|pregunta|usuario|consulta|asunto|domanda|utente|richiesta|oggetto|pergunta|usuário|assunto|invoer|vraag|gebruiker"
    r"|вопрос|запрос|пользователь|ввод)(?: (?:text|message|texto?|testo|tekst))?|输入|問題|问题|用户|用戶|入力|質問|ユーザー|입력|질문|사용자)[*_\"'`]*\s?[:：]\W*\Z"
)
_OF_OTHERS = lazy_regex(
    r"(?<!\w)(?:(?:the|a) (?:user|customer|author|writer|speaker|person|client|reviewer) (?:has )?"
    r"(?:picked|pick|selected|chose|choose|answered|replied|said|says|asked|typed|entered|wrote|gave|sent|labell?ed|tagged|marked|rated)"
    r"|i was (?:going|about) to (?:say|answer)|i would have (?:said|answered)"
    r"|you(?:r (?:answer|choice|input|reply|response|message|question)|['’]?ve)? (?:is|was|picked|selected|chose|answered|said|wrote|gave)"
    r"|please (?:answer|respond|reply|say|return|write)(?: with)?|(?:\A|[.!]\s)\W*(?:(?:answer|respond|reply) with|(?:return|think|say|write|choose|pick|select)))\W*\Z"
)
_SETS_OFF = (":", "：", "=", "→", "-", "–", "—")


def asks_or_relates(before: str) -> bool:
    """Return True if the harmless words before a value make no statement: "Is it low", "with low", "very low"."""
    folded = before.casefold()
    if _OTHER_LABEL.search(folded) or _OF_OTHERS.search(folded):
        return True
    words = list(_words(before))
    if not words or before.rstrip(" \t\r\n*_`\"'“").endswith(_SETS_OFF):
        return False
    return words[0] in _ASKING or _RELATING.issuperset(words)


# Words of the lists above that tie a value to something else if they stand directly before it: a place, a span,
# or what is numbered.
_TIES = frozenset(
    """
    after under in im em i as with for für mit zu als pour para por per pelo voor met van för av som do до в к nel år
    untuk option item entry record section case order ticket document file image paragraph article type class level team
    queue name title word words message comment post tweet email mail review statement claim question sentence product
    story process request content context text texts status state customer satz frage stufe typ klasse aussage nachricht
    kommentar phrase texte commentaire niveau classe texto frase mensaje comentario pregunta nivel tipo clase opción testo
    messaggio commento domanda livello opzione mensagem comentário pergunta nível zin bericht vraag optie invoice book
    company film movie patient
    """.split()
)
# A label of what has a number and is not counted: "Ticket: 42".
_NUMBERED = frozenset(
    "ticket order item entry record section case document file image paragraph article option invoice".split()
)
# JSON, a tag or a reference.
_OTHER_MARKUP = lazy_regex(r"(?<!\\boxed)[{\[]|<[/\w]")
# Signs that may stand directly before and after a value.
_BEFORE_VALUE = " \t\r\n*_`\"'“„‘«([$\\"
_SIGNS_BEFORE = ".:：=→,，。、!；;{"
_SIGNS_AFTER = "*_`\"'”’»)]}$\\.!,;:。！，、；：(（"


def find_objection(
    before: str,
    after: str,
    known: Collection[str] = (),
    *,
    known_after: Collection[str] = (),
    leading: frozenset[str] = frozenset(),
) -> str | None:
    """Return the word or sign around a number, date or time that may change it, or None.

    All words must be known to be harmless: those of ``known``, and after the value those of ``known_after``, too.
    What is directly before the value must not tie it to something else, as in "after 5", "section 5" and "- 5",
    except the words of ``leading``.
    """
    unknown = find_unknown_word(before, known) or find_unknown_word(
        f"{before} {after}", {*known, *known_after}
    )
    if unknown is not None:
        return unknown
    markup = _OTHER_MARKUP.search(f"{before} {after}")
    if markup is not None:
        return markup[0]
    bare, following = (_IGNORED.sub("", part) for part in (before, after))
    bare, following = bare.rstrip(_BEFORE_VALUE), following.lstrip()[:1]
    for sign, allowed in ((bare[-1:], _SIGNS_BEFORE), (following, _SIGNS_AFTER)):
        if sign and not (sign.isalnum() or sign in allowed or sign in _MARKS or bare.endswith("##")):
            return sign
    words = list(_words(before))
    if words and bare[-1].isalnum() and words[-1] in _TIES.difference(leading):
        return words[-1]
    if len(words) == 1 and words[0] in _NUMBERED.difference(leading):
        return words[0]
    return before.strip() if asks_or_relates(before) and leading.isdisjoint(words) else None


_ALL = (1 << len(_HARMLESS)) - 1


@cache
def _languages_by_word() -> dict[str, int]:
    """Return a bit for each language of each harmless word."""
    languages: dict[str, int] = {}
    for number, words in enumerate(_HARMLESS.values()):
        for word in words.split():
            languages[word] = languages.get(word, 0) | 1 << number
    return languages


@cache
def _harmless_runs() -> re.Pattern[str]:
    words = sorted(_HARMLESS_RUNS.split(), key=len, reverse=True)
    return re.compile(f"(?>{'|'.join(words)})++")


# Between a value and the characters of a language without spaces around it, as in "答えは42です。"; not inside of
# a date, a time or a number with its scale.
_INSIDE = "年月日年월일時时分点點시분万萬만亿億억千百十"
_EDGE_OF_RUN = lazy_regex(
    rf"(?:(?<=[A-Za-z0-9])|(?<=[0-9][日일分분]))(?!(?<=[0-9])[{_INSIDE}])(?={_RUN})|(?<={_RUN})(?<![{_INSIDE}])(?=[A-Za-z0-9])"
)


def separate_runs(text: str) -> str:
    """Return a text with spaces between values and the characters of languages that have no spaces."""
    return text if text.isascii() else _EDGE_OF_RUN.sub(" ", text)


# --- An explanation after an answer ---

# Further words that tell in which language an explanation is. One in six words must be of one language.
_COMMON = {
    "en": """
        and because since be been being by from at he she they them you your also more all who whose how when where
        why does do did had have will can into about over its uses used use using contains contain mentions
        mentioned describing explains means description report bug customer great good bad service urgent need
        needs needed immediately money order refund account but or so what which than other another each both
        first second third last next only same such some any many much new one two three four let let's me see
        look looks looking make makes made take took taken extract extracted extracting follow follows following
        provided requested required let us her his him their after before while under between during through
        per via appears seems refers related represents represent includes include included based like should
        please above below available additional further information details field fields line lines list
        format object values key keys set sets now well work works worked come comes want know tell ask asked
        help happy best way part parts set up down out off again here both own still most parse parsed convert
        converted contained within without step steps ensure schema structure structured json appear listed
        written write long time end start year years day days different reason reasons every not no
        isn't aren't wasn't doesn't don't didn't won't can't cannot nothing never
        """,
    "de": """
        produkt lobt autor beschreibt meldet problem seite rückerstattung telefonnummer absatz
        stimmt richtig enthalten bezieht steht kunde möchte schreibt sein seine ihr ihre weil keine diesem dieser einem mit dem
        alle wurden übernommen lauten und weil da auf von bei nach aus wird werden hat haben auch sich wurde er sie um über mehr so daten
        informationen format extrahiert extrahierten angefordert gewünschte gewünschten wie folgt folgende
        folgenden liste objekt felder werte entsprechend schema enthält stammen direkt angegeben erwähnt
        genannt unten basierend
        """,
    "fr": """
        veut
        faux auteur décrit signale produit problème page remboursement paragraphe trouvent
        mentionne texte contient client demande message vrai exact parle concerne phrase spam
        et car parce que qui sur avec par pas plus il elle ils elles au aux dans en son sa ses se très
        données informations information extraites extraits format demandé demandée demandées suivant
        suivante suivantes fourni liste objet champs valeurs selon schéma contient proviennent viennent
        directement mentionné forme ces leur
        """,
    "es": """
        quiere cancelar
        autor describe informa producto problema página reembolso párrafo
        menciona texto contiene cliente pide correo mensaje cierto trata habla spam
        y porque que con por se su sus lo al más como fue ha han está están muy datos información extraída
        extraídos formato solicitado solicitada siguiente siguientes proporcionado lista objeto campos
        valores según esquema contiene directamente mencionado tienes está estos estas basado
        """,
    "it": """
        vuole annullare
        autore descrive segnala prodotto problema pagina rimborso
        menziona testo contiene cliente chiede messaggio e-mail parla riguarda vero spam si trovano primo paragrafo
        tutti valori provengono dal testo
        e perché che con si su da nel nella al alla ha hanno più come molto dati informazioni estratte
        estratti formato richiesto seguente seguenti fornito lista oggetto campi valori secondo schema
        contiene direttamente
        """,
    "pt": """
        quer cancelar
        autor descreve relata produto problema página reembolso parágrafo primeiro estão valores
        menciona texto contém cliente pede mensagem e-mail fala trata verdadeiro spam
        e porque que com se no na nos nas ao à seu sua mais como foi há está muito dados informações
        extraídas extraídos formato solicitado seguinte seguintes fornecido lista objeto campos valores
        segundo esquema contém estes estas
        """,
    "nl": """
        wil
        auteur beschrijft meldt product probleem pagina terugbetaling alinea staan eerste waarden
        klopt tekst vermeldt bevat gaat klant schrijft juist een geen dit deze over spam e-mail
        en omdat want op met door aan bij die naar ook wordt heeft hij zij om te gegevens informatie
        gevraagd gevraagde formaat volgende lijst object velden waarden volgens schema bevat
        """,
    "sv": """
        här informationen
        och eftersom att på med till från har som är uppgifter information format begärda följande lista
        objekt fält värden enligt schema innehåller
        """,
    "da": """
        og fordi at på med til fra har som oplysninger information format følgende liste objekt felter
        værdier ifølge skema indeholder
        """,
    "no": """
        og fordi at på med til fra har som opplysninger informasjon format følgende liste objekt felt
        verdier ifølge skjema inneholder
        """,
    "pl": """
        chce anulować subskrypcję zamówienie
        nieprawda zgłasza awarię zwrot stronie opisuje autor chwali produkt
        tekst tej ten ta się jak przez wiadomość prawda jest wspomina zawiera dotyczy klient pisze spamem o ponieważ
        i ponieważ bo że z na do w od oraz jego dane informacje wyodrębnione format formacie w następujący
        następujące lista obiekt pola wartości zgodnie schemat zawiera oto tekstu
        """,
    "cs": """
        a protože že s na do v od také data údaje informace formát formátu následující seznam objekt pole
        hodnoty podle schéma obsahuje zde z textu
        """,
    "ru": """
        хочет отменить подписку заказ
        сообщает сбое описывает автор хвалит продукт возврат неправда
        письмо текст правда является упоминается сообщает пишет этот эта этом в клиент говорится утверждение соответствует указано спамом
        и потому что так как с на о об его её они он она для от по данные данных информация информацию
        извлеченные извлечённые формат формате запрошенный следующий следующие список объект поля значения
        согласно схеме содержит из текста тексте вот
        """,
    "uk": """
        у
        і та тому що бо з на про його її вони він вона для від дані інформація формат формату форматі
        наступний список об'єкт поля значення згідно схеми містить із тексту ось
        """,
    "tr": """
        ve çünkü için ile bu çok olan olarak veriler bilgiler bilgi çıkarılan biçiminde formatında istenen
        aşağıdaki liste nesne alanlar değerler göre içerir metinden işte
        """,
    "id": """
        dan karena yang di ke dari dengan pada data informasi format diminta berikut daftar objek nilai
        sesuai hasilnya nya teks diekstrak
        """,
    "ar": """
        و لأن في من على إلى عن مع البيانات المعلومات المستخرجة بتنسيق المطلوب التالي القائمة الحقول القيم
        حسب إليك
        """,
    "hi": "और क्योंकि में से को पर",
}
# Words that may deny an answer, weaken it or take it back, in the languages in which explanations are read
# and in the commonest of the others.
_NEGATIONS = r"""
    not|(?<!base )no|non|nee|nope|never|none|neither|nor|nothing|nobody|nowhere|without|cannot|false|wrong(?:ly)?|untrue
    |(?:ca|do|does|did|is|was|are|were|wo|would|should|could|ai|has|have|had)nt|incorrect(?:ly)?|invalid
    |nicht|kein\w*|nein|nie|niemals|weder|ohne|falsch|kaum|mitnichten|weniger|ne|n|pas|aucune?|jamais|sans
    |guère|peu|ni|sin|nunca|nada|jamás|tampoco|poco|falso|não|nem|nenhum\w*|sem|niet|geen|nooit|noch|zonder
    |senza|mai|né|nessun\w*|mica|inte|ej|aldrig|ingen|inget|utan|ikke|ikkje|aldri|uden|uten|nie|nigdy|żaden
    |bez|ani|není|nikdy|žádn\w*|не|нет|ни|никогда|без|нельзя|ні|немає|değil|yok|hayır|asla|bukan|tidak|belum
    |jangan|tanpa|kurang|incorrect[ao]|sbagliat[ao]|errad[ao]|fout|błędn\w*|неверн\w*|неправильн\w*|yanlış
    |špatně|fel|forkert|feil|خطأ|गलत|ليس|ليست|لا|لم|لن|غير|بدون|नहीं|न|मत|không|nem|ei|ez|nu
"""
_HEDGES = r"""
    maybe|perhaps|possibl[ey]|might|(?<!in )(?<!since )(?<!until )may|could|probabl[ey]|presumably|likely|unlikely|unsure|uncertain
    |unclear|doubt\w*|depends|guess\w*|assum\w*|supposed(?:ly)?|allegedly|hardly|barely|scarcely|rarely
    |partly|partially|mostly|almost|nearly|if|unless|whether|otherwise|actually|hmm+|oops|nah|lied|lying
    |confirm(?:ar|er|are)|indovin\w*|adivin\w*|devin\w*|jok(?:e|ing)|kidding|scratch|mistake\w*|tentative\w*|tb[cd]|confirmed|subject to|sort of|kind of
    |only (?:on|if|when|in|for|with|after|before|until|as)|except|as long as|hypothetical\w*|previous\w*
    |last|colleague|claims|claimed|scherz|witz|halb|aber nur|es sei denn|chyba że|a menos|à moins|tenzij|(?:please |but )check|hang on|hold on|on reflection|not (?:false|wrong|incorrect|untrue)|wacht|warte|moment|attend(?:s|ez)|esper[ae]|aspett[ai]|czekaj|chwil\w*|подожди\w*|(?:i )?think so|gegenteil|behauptet|glaube|blague|plaisanterie|exemple|beispiel
    |ejemplo|broma|esempio|scherzo|шутка|пример|наугад|sorry|correction|corrected|rather|instead|opposite
    |contrary|iron(?:y|ic\w*)|sarcas\w+|examples?|placeholder|pretend\w*|vielleicht|eventuell|vermutlich
    |wahrscheinlich|möglicherweise|peut-être|probablement|quizá|quizás|tal|acaso|the reverse
    |i mis(?:read|judged)|beg to differ|most cases|provided that|ignore (?:this|that)|i retract
    |please verify|old value|fails to|coin flip|ruled out|excluded|rejected|double-?check\w*|grain of salt|(?:over|under)statements?|made (?:this|it|that) up|random (?:choice|pick)
    |hard to tell|vérifier|ich rate|geraten|contraire|contrario|verificare|exemplo|piada|chutei|voorbeeld
    |grapje|te controleren|gegokt|przykład|żart|sprawdzenia|zgaduję|угадал|проверить|приклад|вгадав|örnek
    |şaka|tahmin|exempel|skämtar|gissade|eksempel|gættede|spøk|gjettet|příklad|hádal|esimerkki|arvasin
    |tippeltem|exemplu|ghicit|παράδειγμα|adiviné|contoh|menebak|ví dụ|مثال|مزحة|خمنت|probablemente|forse
    |probabilmente|talvez|provavelmente|misschien|waarschijnlijk|kanske|måske|kanskje|może|chyba|možná|asi
    |возможно|наверное|может|вероятно|можливо|мабуть|erfunden\w*|ausgedacht|fiktiv\w*|inventée?s?
    |ficti[fv]\w*|inventad[oa]s?|ficticios?|ficticias?|inventat[oiae]|verzonnen|påhittad\w*|opdigtet\w*
    |oppdiktet\w*|zmyślon\w*|vymyšlen\w*|выдуман\w*|вигадан\w*|uydur\w*|fiktif|belki|galiba|mungkin
    |barangkali|ربما|शायद|(?:ge)?schätz(?:t|ung)\w*|geschat\w*|schatting\w*|estimé\w*|estimad[oa]s?|estimativa|stimat[oaie]|stima
    |uppskatt\w*|skønn\w*|anslag|anslått|szacun\w*|oszacowan\w*|odhad\w*|приблизительн\w*|орієнтовн\w*|perkiraan|diperkirakan
    |supposition|suposi\w+|palpite|supposizione|fict[íi]ci[oa]s?|تقدير\w*|अनुमान\w*|then again|fictiefs?|fittizi\w*
"""
_TAKES_BACK = lazy_regex(
    rf"(?<!\w)(?:{join_lines(_NEGATIONS)}|{join_lines(_HEDGES)})(?!\w)"
    r"|(?:\A|[.!?,;]\s*)wait(?!\w)|take (?:that|it) back|n['’]t(?!\w)|[?¬≠❌✗✘✖☒🚫⛔👎🤔🙄😕🤷]|!=|~~|\[ \]"
    r"|[不没沒非未无無别否勿反錯错]|間違|틀[렸린]|可能|猜|例子|示例|範例|范例|推测|推測|推定|추정|估计|估算|估計|核实|例です|要確認|예시|농담|추측|违う|違う|いや|等等|잠깐|抱歉|遗憾|죄송|모르|유감|착각|참고|残念|参考|虚构|虛構|编造|編造|架空|仮の|也许|或许|大概|ない|ません|じゃ|ず|なく|かも|たぶん|아니|않|안 |못|없|아마|글쎄"
)
# What models say of their work in the first person.
_FIRST_PERSON = lazy_regex(r"(?<!\w)i(?:['’]\w+)?(?!\w)|\Aplease\b")
_OF_WORK = lazy_regex(
    r"(?<!\w)i(?:['’]ve|['’]ll|['’]d| have| will| can| should| must| am going to)?(?: also| now| then| just| have| been)*"
    r" (?:extract\w*|us(?:e|ed|ing)|follow\w*|took|take|taken|includ\w*|kept|keep|find|found|see|set|read|analy[sz]\w*"
    r"|cho?ose|chosen|identif\w*|list\w*|add\w*|convert\w*|format\w*|return\w*|creat\w*|generat\w*|produc\w*|structur\w*"
    r"|summari[sz]\w*|translat\w*|classif\w*|look\w*|count\w*|calculat\w*|comput\w*|go|went|write|wrote|give|provide\w*|parse\w*|put|mark\w*|focus|adapt|know"
    r"|think|understand|hope|would|need to|want to|left|be happy|happy)\b"
    r"|i (?:could|can|did)(?: not|n['’]t) (?:find|see|locate)|let me|can i|i am happy|i['’]m happy|please (?:find|see|note)|as i|before i|so i|i (?:need|have|want) to"
)
# What a sentence after an answer says of the answer, and not of its reasons.
_RETRACTION = lazy_regex(
    r"(?:made|make it) up|invented|fabricated|fictional|fictitious|placeholders?|(?:a|just a) sample|template|draft|disregard"
    r"|ignore (?:the above|that)|for illustration|an illustration|continued|more to come|(?:to|will) follow\b|and so on"
    r"|the (?:real|right|correct|true|actual) (?:answer|value)|(?:outdated|superseded|synthetic|fake)\W*\Z|another document"
    r"|different person|with caution|my bad|you should (?:verify|check)|replace the|fill in|adjust the|was the input"
    r"|answer is unknown|impossible to (?:say|tell|know)|in (?:reality|fact),? it|the text (?:(?:was|is) missing|is too short)"
    r"|it should be|\A\W*but (?:the|it|in)\b|to be \w+ed\b|part \d+ of \d|and \d+ (?:more|others)|contradict\w*|\A\W*(?:score\b|/s\W*\Z)"
    r"|[:：]\W*\Z"
)
_NEGATION = lazy_regex(
    rf"(?<!\w)(?:{join_lines(_NEGATIONS)})(?!\w)|n['’]t(?!\w)|[不没沒非未无無違]|않|아니|틀렸|ません|ない"
)
_WORDS_PER_COMMON_WORD = 6
_CHARACTERS_PER_COMMON_ONE = 5


def takes_back(text: str) -> str | None:
    """Return the first word of an explanation that may deny or weaken the answer before it, or None."""
    folded = text.casefold()
    match = _TAKES_BACK.search(folded) or _RETRACTION.search(folded)
    return match[0] if match else None


def is_personal_remark(text: str) -> bool:
    """Return True if a sentence in the first person does not say what was done, as in "I mixed them up"."""
    folded = text.casefold()
    return (
        _FIRST_PERSON.search(folded) is not None
        and _OF_WORK.search(folded) is None
        and _may_be_english(folded)
    )


def _may_be_english(text: str) -> bool:
    """Return False if more words of a text are common in another language: "I valori" is not about me."""
    counts = _counts_of_common_words(text, ())[0]
    return counts[0] == max(counts)


def without_negations(text: str) -> str:
    """Return the text without the words that deny something, which explain the answer "no"."""
    return _NEGATION.sub(" ", text.casefold())


def is_in_known_language(text: str) -> bool:
    """Return True if enough words of each sentence are from one language that this module knows."""
    for sentence in _SENTENCE_END.split(text):
        common, total = _count_common_words(sentence)
        if common < min(total, 2) or common * _WORDS_PER_COMMON_WORD < total:
            return False
        runs = "".join(_RUN_CHARACTER.findall(sentence))
        if not total and not runs and sentence.strip(_BLANKS):
            return False
        if len("".join(_common_runs().findall(sentence))) * _CHARACTERS_PER_COMMON_ONE < len(runs):
            return False
    return True


def is_sentence_in_known_language(text: str, own_words: Collection[str]) -> bool:
    """Return True if most of a sentence is certainly from one language that this module knows.

    Related languages share some words, so a short sentence must consist of known words. ``own_words``, such as
    those of a JSON value, and names do not count.
    """
    common, total = _count_common_words(_NAME.sub(" ", text), own_words)
    text = _POLITE.sub("", text)
    runs = "".join(_RUN_CHARACTER.findall(text))
    known = len("".join(_common_runs().findall(text)))
    enough = total if total < 4 else -(-total // (2 if total < 8 else 3))
    return common >= enough and known * 2 >= len(runs)


def _count_common_words(text: str, own_words: Collection[str] = ()) -> tuple[int, int]:
    """Return how many words of a text are common in its most likely language, and how many words it has."""
    counts, total = _counts_of_common_words(text, own_words)
    return max(counts), total


def _counts_of_common_words(text: str, own_words: Collection[str]) -> tuple[list[int], int]:
    """Return how many words of a text are common in each language, and how many words it has."""
    words_of, total = _languages_by_common_word(), 0
    counts = [0] * len(_HARMLESS)
    for word in _words(text):
        of_word = words_of.get(word, 0)
        if not of_word and (word in own_words or (len(word) == 1 and word.isascii())):
            continue
        total += 1
        for number in range(len(counts) if of_word else 0):
            counts[number] += of_word >> number & 1
    return counts, total


@cache
def _common_runs() -> re.Pattern[str]:
    words = sorted({*_HARMLESS_RUNS.split(), *_COMMON_RUNS.split()}, key=len, reverse=True)
    return re.compile("|".join(words))


_COMMON_RUNS = """
    以下 以上 根据 根據 来自 來自 提取 抽取 信息 資訊 資料 数据 數據 字段 欄位 值 格式 符合 要求 请求 提供 包含
    文中 原文 中 从 從 所有 已 按照 输出 輸出 如下 所示 说明 說明 解释 解釋 注 提到 给出 給出 并 和 与 與 在 对 對
    您 你 我们 都 好的 当然 當然 对象 列表 整理 分析 后 後 得到 需要 可以 直接 其中 第 行 段 它 她 他
    です ます した して います いる ある から より を へ と も の に で まで 抽出 情報 値 形式 データ 項目 通り 次
    上記 入力 出力 基づ いて き ました こと もの すべて 各 文 記載
    다음 위 아래 추출 정보 값 형식 데이터 입력 출력 필드 에서 으로 로 와 과 도 만 했습니다 습니다 합니다 됩니다
    있습니다 요청 제공 하신 하는 한 된 모든 각 문장 따라 맞게 객체 목록 결과 이며 것 및
"""


# Korean verb endings, which say nothing.
_POLITE = lazy_regex("(?:했|합|됩|있|이|입)?(?:습니다|니다)")
_BLANKS = " \t\r\n.!*_`\"')»”"
_SENTENCE_END = lazy_regex(r"(?<=[.!?])\s+|\n")
# A word with a capital letter that does not begin a sentence; in German it may be any noun.
_NAME = lazy_regex(r"(?<=[^\W\d_] )[A-Z][^\W_]+")


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, without the characters of languages that have no spaces."""
    for match in _TOKEN.finditer(text.casefold().replace("’", "'")):
        if match[0][0].isalpha() and not _RUN_CHARACTER.match(match[0]):
            yield match[0]


@cache
def _languages_by_common_word() -> dict[str, int]:
    languages = dict(_languages_by_word())
    for number, language in enumerate(_HARMLESS):
        for word in _COMMON[language].split():
            languages[word] = languages.get(word, 0) | 1 << number
    return languages
