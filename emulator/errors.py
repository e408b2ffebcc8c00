"""Every exception of the project.

    EmulatorError                       .code  stable;  .name, .message  as Cloudflare shows them
    ├── InvalidInput                    the caller's mistake; nothing was written
    │   ├── InvalidWorkflowName
    │   ├── InvalidInstanceId
    │   ├── InvalidBatch
    │   ├── InvalidRetention
    │   ├── InvalidEventType
    │   ├── InvalidSubscription
    │   ├── InvalidDuration
    │   ├── InvalidCron
    │   ├── PastWakeTime
    │   ├── StepRefused                 a `step` call that breaks a rule of Cloudflare's
    │   │   ├── InvalidStepName
    │   │   ├── InvalidStepConfig
    │   │   ├── InvalidStep
    │   │   ├── StepLimitReached
    │   │   └── RollbackPhase
    │   ├── SerializationError          a value that cannot be stored, with the path to it
    │   ├── PayloadTooLarge
    │   ├── InvalidHook                 a token, a retention or an option of a hook
    │   │   └── HookRetentionTooLong
    │   ├── InvalidAttributes
    │   ├── TypeValidationError         a payload that a hook's schema refuses
    │   ├── InvalidStream               the name of a stream, or where to begin in it
    │   ├── DynamicCodeError            a tenant's code that does not compile: line and column
    │   ├── MissingDispatcherMetadataError  an instance of a dynamic workflow that no tenant's binding created
    │   └── InvalidSignature            a webhook whose sender is not verified
    ├── NotFound
    │   ├── WorkflowNotFound
    │   ├── InstanceNotFound
    │   ├── HookNotFoundError           nobody takes payloads for the token
    │   ├── WorkflowRunNotFoundError
    │   ├── DynamicCodeNotFoundError    a tenant's code that nobody has published
    │   └── StepNotFound
    ├── Conflict
    │   ├── EntityConflictError         the name is taken, or stands for something else
    │   │   ├── InstanceAlreadyExists
    │   │   ├── HookConflictError       the token is taken: .conflicting_run_id
    │   │   └── HookResumeConflictError
    │   ├── HookDisposedError
    │   ├── CannotTerminate
    │   ├── InstanceFinished
    │   ├── DynamicCodeConflictError    a version that has another code
    │   └── StreamError                 the stream takes no chunk: it is closed, or its writer has ended
    ├── WorkflowContextError            called where it cannot be; also a RuntimeError
    ├── ReplayDivergenceError           the code is not the one that the journal tells of
    ├── StorageError
    │   ├── JournalLocked               another process has the file
    │   ├── JournalTooNew               written by a later version
    │   │   └── InstanceTooNew          one instance, by rules that only a later version knows
    │   ├── JournalCorrupt              an entry or a file that does not decode
    │   └── JournalUnavailable          read-only folder, full disk
    │       └── JournalRemoved          the file has gone while it was open
    ├── EngineStopped                   the engine has ended; what was not acknowledged did not happen
    ├── ConfigError                     the wrangler file: where, what was given, what is allowed
    ├── ProgramLost                     the process with an instance's code has ended; the code is begun again in a new one
    ├── WorkerLoadError                 the user's module has no such class, or did not import
    └── StepFailure                     how a step's stored failure reaches the workflow
        ├── StepError                   any other exception: .name and .message of the original
        ├── WorkflowTimeoutError        also a TimeoutError
        ├── WorkflowInternalError
        ├── WorkflowFatalError
        ├── WorkflowRunFailedError      another run, whose result was asked for
        ├── WorkflowRunCancelledError
        ├── NonRetryableDelayError
        ├── RetryableError              raised by users: when the step is tried again
        └── NonRetryableError           raised by users: the step is not tried again; also called FatalError

The docstring is the message where none is given. `.name` is the class name that Cloudflare's engine would report,
so that a workflow that prints `error.name` prints the same here and there.
"""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta
from typing import ClassVar, Self


class EmulatorError(Exception):
    """Something went wrong in the emulator."""

    code: ClassVar[str] = "internal"
    fields: ClassVar[tuple[str, ...]] = ()
    """Attributes of its own, texts that keep their values in the journal and over HTTP; the class takes them as keywords."""
    is_retryable: bool = True
    """Whether another attempt of a step that raises it could help."""
    name: str = "Error"
    hint: str = ""
    """What is allowed, or what to do, where Cloudflare's text does not say it: a note of the exception."""

    def __init__(self, message: str | None = None) -> None:
        self.message = inspect.getdoc(type(self)) or "" if message is None else message
        super().__init__(self.message)
        if self.hint:
            self.add_note(self.hint)


class InvalidInput(EmulatorError):
    """The input is not valid."""

    code = "body"
    name = "WorkflowError"


class InvalidWorkflowName(InvalidInput):
    """Workflow names must be 1-64 characters long, start with a letter, number, or underscore, and may only contain letters, numbers, underscores, or hyphens."""

    code = "workflow.invalid_name"


class InvalidInstanceId(InvalidInput):
    """Workflow instance has invalid id"""

    code = "instance.invalid_id"
    hint = (
        'An id is 1 to 100 letters, digits, "_" and "-", and does not begin with "-". '
        "Without one, an id is made up."
    )


class InvalidBatch(InvalidInput):
    """(body) Provided argument is invalid"""


class InvalidRetention(InvalidInput):
    """(body) Duration must be a number or a string in format '{{number}} {{unit}}' where unit is second(s), minute(s), etc."""

    code = "instance.invalid_retention"
    hint = 'A retention is milliseconds or a text such as "3 days", up to 30 days.'


class InvalidEventType(InvalidInput):
    """(workflow.invalid_event_type) Event types must be 1-100 characters long, start with a letter, number, or underscore, and may only contain letters, numbers, underscores, or hyphens."""

    code = "workflow.invalid_event_type"


class InvalidSubscription(InvalidInput):
    """Invalid Workflow subscription options

    `.detail` says what is wrong, which Cloudflare's message does not.
    """

    code = "instance.invalid_subscription"
    name = "Error"

    def __init__(self, message: str | None = None, detail: str = "") -> None:
        super().__init__("Invalid Workflow subscription options" if message is None else message)
        self.detail = detail
        if detail:
            self.add_note(detail)


class InvalidDuration(InvalidInput):
    """A duration is a number of milliseconds, a text such as "10 minutes", or a timedelta."""

    code = "step.invalid_duration"


class InvalidCron(InvalidInput):
    """A cron expression has five fields: minute, hour, day of the month, month, day of the week."""

    code = "workflow.invalid_cron"


class PastWakeTime(InvalidInput):
    """You can't sleep until a time in the past, time-traveler"""

    code = "step.past_wake_time"
    name = "Error"
    hint = "A number is milliseconds since 1970, where time.time() gives seconds; a datetime will do, too."


class StepRefused(InvalidInput):
    """The step is not valid."""

    code = "step.refused"
    name = "WorkflowFatalError"


class InvalidStepName(StepRefused):
    """The step's name exceeds max length (256 chars) or invalid characters found"""

    code = "step.invalid_name"


class InvalidStepConfig(StepRefused):
    """The step's config is in a invalid format.

    `.detail` says what is wrong, which Cloudflare's message does not.
    """

    code = "step.invalid_config"

    def __init__(self, message: str | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        if detail:
            self.add_note(detail)


class InvalidStep(StepRefused):
    """The step was not declared as Cloudflare's SDK wants it."""

    code = "step.invalid"


class StepLimitReached(StepRefused):
    """The limit of steps has been reached. This limit can be changed in your worker configuration."""

    code = "instance.step_limit"


class RollbackPhase(StepRefused):
    """Cannot execute steps during rollback phase"""

    code = "step.rollback_phase"


class SerializationError(InvalidInput, TypeError):
    """The value cannot be stored."""

    code = "value.not_serializable"
    is_retryable = False
    name = "SerializationError"


class PayloadTooLarge(InvalidInput):
    """The value is over the size limit."""

    code = "value.too_large"
    name = "WorkflowInternalError"


class InvalidHook(InvalidInput, ValueError):
    """The hook is not valid."""

    code = "invalid_hook"
    is_retryable = False


class HookRetentionTooLong(InvalidHook):
    """(hook.retention) Hook minimum retention cannot exceed 30 days"""

    code = "hook.retention"


class InvalidAttributes(InvalidInput):
    """The attributes are not valid."""

    code = "invalid_attributes"
    is_retryable = False
    name = "FatalError"


class TypeValidationError(InvalidInput, ValueError):
    """Hook payload did not match the defined schema"""

    code = "payload_invalid"
    is_retryable = False
    name = "TypeValidationError"


class InvalidStream(InvalidInput, ValueError):
    """The name of a stream, or the index to begin at, is not valid."""

    code = "stream.invalid"
    is_retryable = False
    name = "ValueError"


class DynamicCodeError(InvalidInput):
    """The code cannot be used.

    `.file`, `.line` and `.column` (both from 1) say where, and are None where no place is to blame.
    """

    code = "dynamic.invalid_code"
    name = "DynamicCodeError"

    def __init__(
        self,
        message: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column


class MissingDispatcherMetadataError(InvalidInput):
    """The instance was not created through wrap_workflow_binding(), so nobody knows whose it is."""

    code = "dynamic.missing_metadata"
    name = "MissingDispatcherMetadataError"


class InvalidSignature(InvalidInput):
    """The sender of the webhook is not verified."""

    code = "webhook.signature"


class NotFound(EmulatorError):
    """There is no such thing."""

    code = "not_found"


class WorkflowNotFound(NotFound):
    """(workflow.not_found) Workflow does not exist"""

    code = "workflow.not_found"


class InstanceNotFound(NotFound):
    """(instance.not_found) Instance does not exist"""

    code = "instance.not_found"

    @classmethod
    def named(cls, instance_id: str) -> Self:
        """The error that names which one."""
        return cls(f'(instance.not_found) Instance "{instance_id}" does not exist')


class HookNotFoundError(NotFound):
    """No hook takes payloads for this token."""

    code = "hook_not_found"
    fields = ("token",)
    name = "HookNotFoundError"

    def __init__(self, message: str | None = None, *, token: str = "") -> None:
        super().__init__(
            f'No hook takes payloads for the token "{token}"' if message is None else message
        )
        self.token = token


class WorkflowRunNotFoundError(NotFound):
    """There is no such run."""

    code = "run.not_found"
    fields = ("run_id",)
    is_retryable = False
    name = "WorkflowRunNotFoundError"

    def __init__(self, message: str | None = None, *, run_id: str = "") -> None:
        super().__init__(f'Workflow run "{run_id}" not found' if message is None else message)
        self.run_id = run_id


class DynamicCodeNotFoundError(NotFound):
    """The code is not there."""

    code = "dynamic.code_not_found"
    name = "DynamicCodeNotFoundError"


class StepNotFound(NotFound):
    """(instance.cannot_restart) The step is not in the execution history"""

    code = "instance.cannot_restart"
    fields = ("hint",)
    name = "WorkflowError"

    def __init__(self, message: str | None = None, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class Conflict(EmulatorError):
    """The instance is not in a state that allows this."""

    code = "conflict"
    name = "WorkflowError"


class EntityConflictError(Conflict):
    """The name stands for something else."""


class HookConflictError(EntityConflictError):
    """A hook's token is taken. `.conflicting_run_id` and `.conflicting_workflow` name the instance that holds it.

    `.index` is the place of the item in a batch that was refused for it.
    """

    code = "hook_conflict"
    fields = ("token", "conflicting_run_id", "conflicting_workflow")
    is_retryable = False
    name = "HookConflictError"

    def __init__(
        self,
        message: str | None = None,
        *,
        token: str = "",
        conflicting_run_id: str = "",
        conflicting_workflow: str = "",
    ) -> None:
        text = f'Hook token "{token}" is already in use by another workflow (run "{conflicting_run_id}")'
        super().__init__(text if message is None else message)
        self.token = token
        self.conflicting_run_id = conflicting_run_id
        self.conflicting_workflow = conflicting_workflow
        self.index: int | None = None


class HookResumeConflictError(EntityConflictError):
    """This resume id came before, with another payload or for another hook."""

    code = "resume_conflict"
    is_retryable = False
    name = "EntityConflictError"


class HookDisposedError(Conflict):
    """The hook has been disposed of, and nothing is left to take from it."""

    code = "hook_disposed"
    fields = ("token",)
    name = "HookDisposedError"

    def __init__(self, message: str | None = None, *, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class InstanceAlreadyExists(EntityConflictError):
    """(instance.already_exists) The instance already exists"""

    code = "instance.already_exists"
    hint = "Choose another id, or delete the instance that has it."


class CannotTerminate(Conflict):
    """(instance.cannot_terminate) Cannot terminate instance since its on a finite state"""

    code = "instance.cannot_terminate"
    hint = "It has ended already. Restart it to let it run again."


class DynamicCodeConflictError(Conflict):
    """The version has another code."""

    code = "dynamic.version_taken"
    name = "DynamicCodeConflictError"


class InstanceFinished(Conflict):
    """(instance.in_finite_state) Instance reached a finite state, cannot send events to it"""

    code = "instance.in_finite_state"


class StreamError(Conflict):
    """The stream is closed"""

    code = "stream.closed"
    is_retryable = False
    name = "StreamError"


class WorkflowContextError(EmulatorError, RuntimeError):
    """This cannot be called here."""

    code = "workflow.context"
    is_retryable = False
    name = "WorkflowContextError"


class ReplayDivergenceError(EmulatorError):
    """The code asks for something else than the journal has."""

    code = "replay.divergence"
    is_retryable = False
    name = "ReplayDivergenceError"


class StorageError(EmulatorError):
    """The journal cannot be used."""

    code = "storage"


class JournalLocked(StorageError):
    """Another process has the journal open."""

    code = "storage.locked"


class JournalTooNew(StorageError):
    """The journal was written by a later version of the emulator."""

    code = "storage.too_new"


class InstanceTooNew(JournalTooNew):
    """The instance was created by a later version of the emulator, under rules that this one does not know."""

    code = "storage.instance_too_new"


class JournalCorrupt(StorageError):
    """The journal is damaged."""

    code = "storage.corrupt"


class JournalUnavailable(StorageError):
    """The journal cannot be written."""

    code = "storage.unavailable"


class JournalRemoved(JournalUnavailable):
    """The journal has been removed while it was open."""

    code = "storage.removed"
    hint = "If you have the file, put it back before you start again: what was acknowledged is nowhere else."


class EngineStopped(EmulatorError):
    """The engine has stopped; what it has not acknowledged did not happen."""

    code = "engine.stopped"
    fields = ("hint",)

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str = "Start the emulator again: nothing that it acknowledged is lost.",
    ) -> None:
        self.hint = hint
        super().__init__(message)


class ConfigError(EmulatorError):
    """The configuration is not valid."""

    code = "config"


class ProgramLost(EmulatorError):
    """The process with the instance's code has ended."""

    code = "dynamic.process"
    name = "ProgramLost"


class WorkerLoadError(EmulatorError):
    """The Worker could not be loaded."""

    code = "worker.load"


class StepFailure(EmulatorError):
    """A step failed."""

    code = "step.failed"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.name = type(self).__name__


class StepError(StepFailure):
    """A step failed with an exception of the user's: `.name` and `.message` are the original's."""

    def __init__(self, message: str = "", name: str = "Error") -> None:
        super().__init__(message)
        self.name = name


class WorkflowTimeoutError(StepFailure, TimeoutError):
    """Execution timed out"""

    code = "step.timeout"


class WorkflowInternalError(StepFailure):
    """Attempt failed due to internal workflows error"""

    code = "step.internal"


class WorkflowFatalError(StepFailure):
    """The execution of the Workflow instance was terminated"""

    code = "step.fatal"


class WorkflowRunFailedError(StepFailure):
    """Another run has failed. `.error_name` and `.error_message` are those of what it failed with."""

    code = "run.failed"
    fields = ("run_id", "error_name", "error_message")
    is_retryable = False

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        error_name: str = "",
        error_message: str = "",
    ) -> None:
        text = f'Workflow run "{run_id}" failed: {error_name}: {error_message}'
        super().__init__(text if message is None else message)
        self.run_id = run_id
        self.error_name = error_name
        self.error_message = error_message


class WorkflowRunCancelledError(StepFailure):
    """Another run was cancelled."""

    code = "run.cancelled"
    fields = ("run_id",)
    is_retryable = False

    def __init__(self, message: str | None = None, *, run_id: str = "") -> None:
        super().__init__(f'Workflow run "{run_id}" was cancelled' if message is None else message)
        self.run_id = run_id


class NonRetryableDelayError(StepFailure):
    """The delay function failed"""

    code = "step.delay"


class NonRetryableError(StepFailure):
    """Raise this in a step to fail it without another attempt.

    Any exception whose class is called `NonRetryableError` stops the retries; a subclass of another name does not, for
    Cloudflare goes by the name alone (Cloudflare: Workers API, NonRetryableError).
    """

    code = "step.non_retryable"

    def __init__(self, message: object = "", *more: object) -> None:
        # Cloudflare's class takes what any exception takes, and says it as any exception does.
        super().__init__(str((message, *more)) if more else str(message))
        self.name = "NonRetryableError"


FatalError = NonRetryableError
"""The Workflow SDK's name."""


class RetryableError(StepFailure):
    """Raise this in a step to say when it is tried again, whatever its config says of the delay (Workflow SDK: steps).

    `retry_after` is a duration (a number is milliseconds) or a datetime with a time zone; one second if it is not given.
    It does not change how often the step is tried.

    Raises:
        ValueError: `retry_after` is none.
    """

    code = "step.retryable"
    retry_after: float | str | timedelta | datetime = 1_000

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | str | timedelta | datetime = 1_000,
    ) -> None:
        super().__init__(message)
        if isinstance(retry_after, datetime) and retry_after.tzinfo is None:
            raise ValueError(f"retry_after {retry_after!r} has no time zone.")
        self.retry_after = retry_after
