"""A bucket whose new objects are messages of a queue, on a server of this machine."""

from __future__ import annotations

import itertools
import json
from typing import Any

import boto3

from pyhudi.ingest import S3EventSource
from tests.support.object_stores import shared_s3

_NUMBERS = itertools.count()


class Bucket:
    """A new bucket and its queue.  Received messages are visible again at once, as after a restart
    that took longer than they are hidden."""

    def __init__(self) -> None:
        options = shared_s3().options
        self.storage_options = options
        self.endpoint = options["endpoint"]
        self.client, self.sqs, self.sns = map(self._service, ("s3", "sqs", "sns"))
        self.name = f"events-{next(_NUMBERS)}"
        self.client.create_bucket(Bucket=self.name)
        self.queue = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        self._notify()
        self.sqs.purge_queue(QueueUrl=self.queue)  # of the test event

    def _service(self, name: str) -> Any:
        options = self.storage_options
        return boto3.client(
            name, endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=options["access_key_id"],
            aws_secret_access_key=options["secret_access_key"],
        )  # fmt: skip

    def _notify(self) -> None:
        rule = {"QueueArn": self.arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
        self.client.put_bucket_notification_configuration(
            Bucket=self.name, NotificationConfiguration={"QueueConfigurations": [rule]}
        )

    @property
    def arn(self) -> str:
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])
        return str(found["Attributes"]["QueueArn"])

    def source(self, **how: Any) -> S3EventSource:
        how = {"wait_seconds": 0, "visibility_seconds": 0, **how}
        return S3EventSource(
            self.queue, region="us-east-1", endpoint=self.endpoint,
            storage_options=self.storage_options, **how,
        )  # fmt: skip

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def send(self, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=text)

    def bodies(self) -> list[str]:
        """The messages of the queue, also those that are hidden at present."""
        found: dict[str, str] = {}
        while True:
            answer = self.sqs.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=10, VisibilityTimeout=0
            )
            new = {m["MessageId"]: m["Body"] for m in answer.get("Messages", ())}
            if new.keys() <= found.keys():
                return list(found.values())
            found |= new
