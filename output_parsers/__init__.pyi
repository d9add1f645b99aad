from .parser.type_parser import (
    ParserFactory as ParserFactory,
    ParserRegistry as ParserRegistry,
    TypeParser as TypeParser,
    parse as parse,
    parser_for as parser_for,
    read as read,
)
from .prose.numbers import NumberStyle as NumberStyle
from .prose.times import DateOrder as DateOrder
from .result.errors import (
    OutputParsingError as OutputParsingError,
    Problem as Problem,
    UnsupportedTypeError as UnsupportedTypeError,
    ValidatorError as ValidatorError,
)
from .result.reading import (
    Coercion as Coercion,
    Leniency as Leniency,
    Reading as Reading,
)
from .streaming import (
    ItemError as ItemError,
    ItemPolicy as ItemPolicy,
    ItemReader as ItemReader,
    PartialList as PartialList,
    PartialObject as PartialObject,
    PartialReader as PartialReader,
    Snapshot as Snapshot,
)
from .types.cited import (
    Cited as Cited,
    CitedSentence as CitedSentence,
    CitedText as CitedText,
    Quote as Quote,
)
from .types.decisions import Decision as Decision, Scale as Scale
from .types.node import OutputParser as OutputParser
from .types.target import (
    Description as Description,
    Int8 as Int8,
    Int16 as Int16,
    Int32 as Int32,
    Int64 as Int64,
    Target as Target,
)
