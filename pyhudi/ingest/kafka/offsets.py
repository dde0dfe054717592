"""Positions in a topic, and their text in a checkpoint.

```
trips,0:1041,1:998        topic, then partition:offset of the next message of each partition
```

Source: KafkaOffsetGen and CheckpointUtils of Apache Hudi (format SPARK_KAFKA).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.errors import UserError


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The offset of the next message of each partition."""

    topic: str
    offsets: Mapping[int, int]

    def __str__(self) -> str:
        positions = (f"{number}:{self.offsets[number]}" for number in sorted(self.offsets))
        return ",".join([self.topic, *positions])

    def count_to(self, end: Mapping[int, int]) -> int:
        """The number of offsets up to `end`; a partition that is not in this counts from 0."""
        return sum(max(0, end[p] - self.offsets.get(p, 0)) for p in end)


def parsed(checkpoint: str, topic: str) -> TopicOffsets:
    """Raises UserError for a text that is not a position in `topic`."""
    name, _, positions = checkpoint.partition(",")
    try:
        pairs = [pair.split(":") for pair in positions.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise UserError(
            "the table's checkpoint is not one of a Kafka topic",
            checkpoint=checkpoint,
            hint="the newest commit was written from another source",
        ) from None
    if name != topic:
        raise UserError(
            "the table's checkpoint is of another topic",
            checkpoint=checkpoint,
            topic=topic,
            hint="a table continues one topic; reset the checkpoint to change it",
        )
    return TopicOffsets(name, offsets)


def limited(start: Mapping[int, int], ends: Mapping[int, int], rows: int) -> dict[int, int]:
    """Ends of the partitions such that they have at most `rows` offsets in all, at least one.

    Each partition gets the same share; what one does not need goes to the others.
    Source: KafkaOffsetGen.CheckpointUtils.computeOffsetRanges of Apache Hudi.
    """
    reached = dict(start)
    left = max(1, rows)
    while left and (open_ := [p for p in ends if reached[p] < ends[p]]):
        share = max(1, left // len(open_))
        for partition in open_:
            step = min(share, left, ends[partition] - reached[partition])
            reached[partition] += step
            left -= step
    return reached
