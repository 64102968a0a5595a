"""How a failure leaves the worker: a final error is a sentence, without the stack that shows files and lines."""

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter


class SentenceFailureConverter(DefaultFailureConverter):
    """Strips stack trace and cause from failures that are never retried."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Encode an exception as the default does, then take out what is no caller's business."""
        super().to_failure(exception, payload_converter, failure)
        if failure.application_failure_info.non_retryable:
            failure.stack_trace = ""
            failure.ClearField("cause")
