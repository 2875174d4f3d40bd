"""Errors of a gate; each leaves the gate as it was before."""

from __future__ import annotations

from limiters.errors import DispatcherError


class RegistrationError(DispatcherError):
    """Base class of errors about the registration of entities."""


class AutoRegistrationConflictError(RegistrationError):
    """Explicit registration and auto-registration were combined.

    If an entity's data came first, auto-registration would register it without the parent and the
    data that its own registration brings a moment later, and nothing could correct that.
    """

    def __init__(self, entity: str | None = None) -> None:
        self.entity = entity
        if entity is None:
            problem = "this gate and the others of its name do not agree on auto_register"
        else:
            problem = f"{entity!r} cannot be registered explicitly: auto_register is on"
        super().__init__(
            f"{problem}; data that overtakes a registration would register its entity with the "
            "wrong parent and data for good, so it is one or the other for the whole gate: "
            "turn auto_register off and register every entity, or send no registrations"
        )


class RegistrationCycleError(RegistrationError, ValueError):
    """The entity would be its own ancestor, or is nested too deep to check."""

    def __init__(self, entity: str, parent: str) -> None:
        self.entity = entity
        self.parent = parent
        super().__init__(
            f"parent must be no descendant of the entity, nor have ancestors without end; "
            f"{entity!r} cannot be registered below {parent!r}"
        )


class EntityStoreError(RegistrationError):
    """The store of the entities failed. The call was not acknowledged: repeat it once the reason is
    gone."""
