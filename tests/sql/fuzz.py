"""Changed texts of statements: a result, or an error of pyhudi, and never a foreign one.

    python -m tests.sql.fuzz [--count 10000] [--seed 0]

The statements of the suite are changed in tokens and in characters, spliced, and run against the
table of the suite.  Prints the texts whose error is a foreign one; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import sqlglot
from sqlglot.errors import SqlglotError

import pyhudi
from pyhudi.sql.grammar import dialect
from tests.sql.cases import CASES, SOURCES
from tests.sql.reading_cases import READ, WRONG
from tests.sql.test_statements import trips

DEFINITIONS: Final = (
    "create table u (id bigint comment 'x', s struct<a: int, b: array<string>>, d decimal(10, 2), "
    "city string) using hudi partitioned by (city) comment 'y' tblproperties (primaryKey = 'id', "
    "type = 'mor', preCombineField = 'd')",
    "create table if not exists v tblproperties (primaryKey = 'id') as select * from trips",
    "alter table trips add columns (m int comment 'x' after fare, o map<string, int> first)",
    "alter table trips alter column fare comment 'x'",
    "alter table trips alter column n type bigint",
    "alter table trips rename column n to n2",
    "alter table trips drop columns (n)",
    "alter table trips set tblproperties ('a' = 'b')",
    "alter table trips unset tblproperties if exists ('a')",
    "alter table trips add if not exists partition (city = 'ny')",
    "alter table trips drop partition (city = 'sf'), partition (city = 'la')",
    "alter table v rename to w", "truncate table trips partition (city = 'sf')",
    "drop table if exists u purge", "create index i on trips using bloom_filters (fare) "
    "options (expr = 'lower')", "drop index if exists i on trips", "refresh index i on trips",
    "show partitions trips", "show create table trips", "show tblproperties trips ('hoodie.name')",
    "show indexes from trips", "show tables", "describe extended trips", "describe history trips",
    "call show_commits(table => 'trips', limit => 2, filter => 'action = \"commit\"')",
    "call system.run_clean('trips', retain_commits => 3)", "call help(cmd => 'show_commits')",
    "call create_savepoint(table => 'trips', commit_time => '2026')", "explain select 1",
    "call run_compaction(op => 'schedule', path => :p)", "explain delete from trips where n = ?",
    "select * from trips timestamp as of '2026-01-01' where id in (select id from news)",
    "select * from hudi_table_changes('trips', 'latest_state', 'earliest')",
)  # fmt: skip
TEXTS: Final = (
    *(case.sql for case in CASES if len(case.sql) < 1000),
    *(text for text, _ in (*READ, *WRONG)), *DEFINITIONS,
)  # fmt: skip
SPECIAL: Final = (
    "'", '"', "`", ";", "--", "/*", "*/", "\0", "\\", "?", ":p", "(", ")", ",", ".", "*", "=>",
    "::",
    "é", "\u202e", "\ud800", "😀", "\n", "{", "}", "$1", "@x", "[", "]", "->", "<", "null", "1e999",
    "-9223372036854775808", "99999999999999999999999999999999999999999", "interval", "cast", "as",
    "date '2026-02-30'", "x'4g'", "x'41'", "0x", "1.", "1l", "1bd", "lateral view", "over ()",
    "filter (where n)", "within group (order by n)", "tablesample (10 percent)", "pivot", "values",
    "distinct", "all", "any", "/*+ hint */", "array()", "map()", "struct()", "x -> x", "::int",
    "timestamp '2026'", "case", "end", "exists", "not", "in ()", "using", "escape '\\'", "union",
    "with x as", "limit", "order by", "group by", "having", "qualify", "window w as", "cluster by",
)  # fmt: skip
PARAMETERS: Final[Any] = {"p": 1}


class Changes:
    """Draws changed texts."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.words = {text: _words(text) for text in TEXTS}
        self.kinds = {word: _kind(word) for words in self.words.values() for word in words}
        self.alike: dict[Any, list[str]] = {}
        for word, kind in self.kinds.items():
            self.alike.setdefault(kind, []).append(word)

    def text(self) -> str:
        draw = self.draw
        words = list(self.words[draw.choice(TEXTS)])
        for _ in range(draw.choice((1, 1, 1, 1, 2, 4))):
            self.change(words)
        text = " ".join(word.strip(" ") for word in words)
        if draw.random() < 0.25:
            place = draw.randrange(len(text) + 1)
            cut = place + draw.choice((0, 0, 1, 2))
            text = text[:place] + draw.choice((*SPECIAL, chr(draw.randrange(0x250)))) + text[cut:]
        return text

    def change(self, words: list[str]) -> None:
        draw = self.draw
        place = draw.randrange(len(words) + 1)
        other = self.words[draw.choice(TEXTS)] or [""]
        start = draw.randrange(len(other))
        match draw.randrange(16):
            case 0:
                del words[place : place + draw.choice((1, 1, 2, 4))]
            case 1:
                words[place:place] = words[place : place + 2]
            case 2:
                words[place:place] = [f" {draw.choice(SPECIAL)} "]
            case 3:
                words[place : place + 1] = [draw.choice(other)]
            case 4:
                words[place : place + draw.choice((0, 1, 3))] = other[start : start + 4]
            case 5:
                del words[place:]
                words += other[start:]
            case kind if kind < 14 and place < len(words):
                exact = [n for n, w in enumerate(words) if self.kinds.get(w) in ("name", "value")]
                place = draw.choice(exact) if exact and kind < 13 else place
                alike = self.alike.get(self.kinds.get(words[place]), SPECIAL)
                words[place] = draw.choice(alike)
            case _ if len(words) > 1:
                one, two = draw.randrange(len(words)), draw.randrange(len(words))
                words[one], words[two] = words[two], words[one]


def _words(text: str) -> list[str]:
    """The tokens of a text, with the spaces before them."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect())
    except SqlglotError:
        return list(text)
    ends = [token.end + 1 for token in tokens]
    return [text[a:b] for a, b in itertools.pairwise([0, *ends])]


def _kind(word: str) -> str:
    """What a word is replaced by: names, literals, signs and keywords by those alike."""
    try:
        kinds = {token.token_type.name for token in sqlglot.tokenize(word, read=dialect())}
    except SqlglotError:
        return ""
    if kinds & {"VAR", "IDENTIFIER"}:
        return "name"
    return "value" if kinds & {"STRING", "NUMBER"} else "word" if word.strip().isalpha() else "sign"


def foreign(
    count: int, seed: int, folder: Path
) -> tuple[list[tuple[str, BaseException]], Counter[str]]:
    """The texts of `count` changed ones that end in a foreign error, and what became of all."""
    changes, counts = Changes(seed), Counter[str]()
    found: list[tuple[str, BaseException]] = []
    known: set[str] = set()
    with chdir(folder):
        for _ in range(count):
            if not os.path.exists("trips/.hoodie/hoodie.properties"):
                trips(folder, "mor")
            text = changes.text()
            lake = pyhudi.connect(folder, tables=SOURCES)
            parameters = PARAMETERS if ":p" in text else [1] if "?" in text else None
            try:
                lake.sql(text, parameters=parameters)
                counts["run"] += 1
            except pyhudi.PyhudiError:
                counts["refused"] += 1
            except Exception as error:
                counts["foreign"] += 1
                kind = f"{type(error).__name__}: {str(error)[:60]}"
                if kind not in known:
                    known.add(kind)
                    found.append((text, error))
    return found, counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        left, became = foreign(given.count, given.seed, Path(made))
    for text, error in left:
        print(f"{type(error).__name__}: {str(error)[:200]}\n    {text!r}")
    print(", ".join(f"{count} {name}" for name, count in sorted(became.items())))
    sys.exit(1 if left else 0)
