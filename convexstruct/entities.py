"""Entities in sequences of tags, and the scores that people report of them: precision, recall and F1.

A tag is "O", or a mark, "-" and a kind ("B-NP"; "B" alone has the kind "_"). An entity is (kind, first, last), and is
right where kind, first and last position are. A *chunk* is a longest run of tags of one kind in which B and S only
begin and E and S only end; L and U are other names of E and S. The schemes differ in which chunks are entities:

    "conll"   every chunk, whatever its marks: how the shared tasks' script conlleval reads tags
    "IOB1"    I..I, or B I..I right after an entity of the same kind
    "IOB2"    B I..I
    "IOBES"   S, or B I..I E
    "BILOU"   U, or B I..I L

where "I..I" may be empty, but in IOB1 without a B. The last four count no chunk that is malformed, as seqeval's strict
mode; seqeval takes the I..I after a misplaced B of IOB1 for an entity, which it is not here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from convexstruct.validation.arguments import choice, refuse, sentence, sequence

#: The marks inside the entities of each scheme, as a regular expression; all chunks are entities of "conll".
SCHEMES = {"conll": "[BIELSU]+", "IOB1": "B?I*", "IOB2": "BI*", "IOBES": "S|BI*E", "BILOU": "U|BI*L"}


class Entity(NamedTuple):
    """kind : what follows the mark. first, last : positions, both inside."""

    kind: str
    first: int
    last: int


def entities_of(tags: Any, scheme: str = "conll") -> list[Entity]:
    """The entities of one list or array of tags, in order.

    Raises
    ------
    ValueError
        If ``scheme`` is none of `SCHEMES`, or a tag is no string, or has a mark that the scheme has not.
    """
    pattern = SCHEMES[choice("scheme", scheme, tuple(SCHEMES))]
    split = [_split(tag, pattern, scheme) for tag in sequence("tags", tags, "a list of tags")]
    found, begin = [], 0
    for at, (mark, kind) in enumerate(split):
        if at + 1 < len(split) and _goes_on(split[at], split[at + 1]):
            continue
        marks = "".join(each for each, _ in split[begin : at + 1])
        misplaced = scheme == "IOB1" and mark != "O" and marks[0] == "B" and not _follows(split, begin)
        if re.fullmatch(pattern, marks) and not misplaced:
            found.append(Entity(kind, begin, at))
        begin = at + 1
    return found


def _split(tag: Any, pattern: str, scheme: str) -> tuple[str, str]:
    """The mark and the kind of a tag."""
    if not isinstance(tag, str):
        refuse("an entry of tags", tag, "a string such as 'B-NP' or 'O'")
    mark, dash, kind = tag.partition("-")
    if mark == "O" and not dash:
        return "O", ""
    if len(mark) != 1 or mark not in pattern or not mark.isalpha():
        refuse("an entry of tags", tag, f"'O', or a mark of {scheme}, '-' and a kind")
    return mark, kind or "_"


def _goes_on(before: tuple[str, str], after: tuple[str, str]) -> bool:
    """Whether two neighbouring tags are of one chunk."""
    return before[0] in "BI" and after[0] in "IEL" and before[1] == after[1]


def _follows(split: list[tuple[str, str]], begin: int) -> bool:
    """Whether a chunk begins right after another of its kind."""
    return begin > 0 and split[begin - 1][1] == split[begin][1]


@dataclass(frozen=True)
class Score:
    """Counts of entities: right are those both there and predicted. A ratio of nothing to nothing is 0."""

    right: int
    predicted: int
    there: int

    @property
    def precision(self) -> float:
        """right / predicted"""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """right / there"""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """2 right / (predicted + there), the harmonic mean of precision and recall."""
        both = self.predicted + self.there
        return 2.0 * self.right / both if both else 0.0


@dataclass(frozen=True)
class EntityReport:
    """The scores of each kind of entity, and of all together; it prints as a table.

    kinds : by name, in order. all : sums over kinds (the "micro average"), what conlleval prints first.
    """

    kinds: dict[str, Score]
    all: Score

    @property
    def macro_f1(self) -> float:
        """The mean of the kinds' F1; 0 without any."""
        return sum(score.f1 for score in self.kinds.values()) / len(self.kinds) if self.kinds else 0.0

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row a kind and one for all, as a DataFrame takes them."""
        return [
            {"kind": kind, "precision": score.precision, "recall": score.recall, "f1": score.f1,
             "right": score.right, "predicted": score.predicted, "there": score.there}
            for kind, score in [*self.kinds.items(), ("all", self.all)]
        ]  # fmt: skip

    def __str__(self) -> str:
        width = max(map(len, [*self.kinds, "kind"]))
        lines = [f"{'kind':{width}}  precision   recall       F1  right  predicted  there"]
        for row in self.records:
            shares = f"{row['precision']:9.2%}  {row['recall']:7.2%}  {row['f1']:7.2%}"
            lines.append(
                f"{row['kind']:{width}}  {shares}  {row['right']:5d}  {row['predicted']:9d}  {row['there']:5d}"
            )
        return "\n".join(lines)


def entity_report(y_true: Sequence[Any], y_pred: Sequence[Any], scheme: str = "conll") -> EntityReport:
    """Compare the entities of predicted sequences of tags with those of the truth.

    Parameters
    ----------
    y_true, y_pred : one list or array of tags a sequence, of the same lengths. scheme : how tags are read, see above.

    Raises
    ------
    ValueError
        As `entities_of`, and if there are not as many sequences, or tags in a sequence, predicted as there are.
    """
    true = sequence("y_true", y_true, "one list of tags a sequence")
    guessed = sequence("y_pred", y_pred, "one list of tags for each of y_true", length=len(true))
    right: Counter[str] = Counter()
    there: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for i, pair in enumerate(zip(true, guessed)):
        lengths = [
            len(sequence(f"{name}[{i}]", one, "a list of tags")) for name, one in zip(("y_true", "y_pred"), pair)
        ]
        if lengths[0] != lengths[1]:
            raise sentence(f"y_pred[{i}] has {lengths[1]} tags, wanted {lengths[0]} as in y_true")
        real, found = (set(entities_of(one, scheme)) for one in pair)
        for counted, some in ((there, real), (predicted, found), (right, real & found)):
            counted.update(entity.kind for entity in some)
    kinds = {kind: Score(right[kind], predicted[kind], there[kind]) for kind in sorted(there | predicted)}
    return EntityReport(kinds, Score(right.total(), predicted.total(), there.total()))


def entity_f1(y_true: Sequence[Any], y_pred: Sequence[Any], scheme: str = "conll") -> float:
    """F1 over the entities of all kinds, conlleval's first figure: ``entity_report(...).all.f1``.

    In scikit-learn's searches: ``scoring=make_scorer(entity_f1)``. ValueError as `entity_report`.
    """
    return entity_report(y_true, y_pred, scheme).all.f1
