//! What becomes of damaged directories: each is refused with file, offset and reason, or what was never acknowledged is cut, or what
//! is not needed is left with a warning.

mod directories;
mod entries;
mod files;

use super::scene::{Expected, Scene};

/// A kind of damage: its name, and what does it and says what becomes of it.
type Kind = (&'static str, fn(&mut Scene) -> Expected);

fn check(kinds: &[Kind]) {
    for (name, damage) in kinds {
        let mut scene = Scene::new();
        let expected = damage(&mut scene);
        scene.check(name, &expected);
    }
}
