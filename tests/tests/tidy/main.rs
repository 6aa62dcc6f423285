//! Rules about the repository that no compiler checks.

mod dependencies;
mod source_text;
mod weak_spots;
