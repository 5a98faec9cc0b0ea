//! Suppresses warnings about sources that are only read, where omitted files do not matter.

use crate::error::Error;
use crate::events::{Event, Events};

/// Drops warnings and forwards all other events.
pub(super) struct Quiet<'e>(pub &'e dyn Events);

impl Events for Quiet<'_> {
    fn event(&self, event: Event) {
        if !matches!(event, Event::Warning(_)) {
            self.0.event(event);
        }
    }

    fn failure(&self, error: &Error) {
        self.0.failure(error);
    }
}
