//! Events of sources that are only read: what such a source leaves out is nobody's concern.

use crate::error::Error;
use crate::events::{Event, Events};

/// Drops warnings, and passes on everything else.
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
