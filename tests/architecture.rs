//! The floors of the house, as ARCHITECTURE.md draws them: a room imports only from rooms named before it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up.
const ROOMS: &[&str] = &[
    "kernel",
    "error",
    "team",
    "cost",
    "problem",
    "sweep",
    "solution",
    "solver",
    "entropic",
    "exact",
    "method",
    "flow",
    "bounded",
    "incremental",
    "line",
    "sliced",
    "gaussian",
    "gromov",
    "barycenter",
    "batch",
    "loss",
    "compiled",
];

/// The one way up: the scalar names what is compiled for it, so that rooms below reach it through the scalar.
const EXCEPTIONS: [(&str, &str); 1] = [("kernel", "compiled")];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Code without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    let lines = text.lines().filter(|l| !l.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names after `crate::` in a text, those in braces included.
fn names(text: &str) -> BTreeSet<String> {
    let word = |s: &str| -> String {
        let end = s.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        s[..end.unwrap_or(s.len())].to_owned()
    };
    let mut found = BTreeSet::new();
    for part in text.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            None => drop(found.insert(word(part))),
            Some(list) => {
                let list = list.split('}').next().unwrap();
                found.extend(list.split(',').map(|item| word(item.trim())));
            }
        }
    }
    found
}

/// Which room each name of the crate's root comes from, read off its `pub use` lines.
fn homes(root: &str) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for line in root.split("pub use ").skip(1) {
        let line = line.split(';').next().unwrap();
        let room = line.split("::").next().unwrap().trim();
        let last = line.rsplit("::").next().unwrap();
        for name in last.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            homes.insert(name.to_owned(), room.to_owned());
        }
    }
    homes
}

#[test]
fn every_room_imports_from_rooms_below() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let homes = homes(&code(&source.join("lib.rs")));
    let mut files = Vec::new();
    sources(&source, &mut files);
    let floor = |room: &str| ROOMS.iter().position(|r| *r == room);
    let mut edges: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for path in files.iter().filter(|p| !p.ends_with("lib.rs")) {
        let inside = path.strip_prefix(&source).unwrap();
        let room = inside.components().next().unwrap().as_os_str();
        let room = room.to_str().unwrap().trim_end_matches(".rs").to_owned();
        assert!(floor(&room).is_some(), "{room} is on no floor");
        for name in names(&code(path)) {
            let target = homes.get(&name).cloned().unwrap_or(name);
            if target != room && floor(&target).is_some() {
                let file = inside.display().to_string();
                edges
                    .entry((room.clone(), target))
                    .or_default()
                    .insert(file);
            }
        }
    }
    assert!(edges.len() > 30, "only {} imports were found", edges.len());
    let upward = edges
        .iter()
        .filter(|((from, to), _)| floor(to) > floor(from));
    let upward: Vec<_> = upward
        .filter(|((from, to), _)| !EXCEPTIONS.contains(&(from.as_str(), to.as_str())))
        .collect();
    assert!(upward.is_empty(), "{upward:#?}");
}
