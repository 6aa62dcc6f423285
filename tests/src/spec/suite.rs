//! [`Suite`]: all spec files together.

use std::fs;
use std::path::{Path, PathBuf};

use crate::spec::parser;
use crate::spec::syntax::{Case, SpecFile};

/// The spec files of a folder and of its sub-folders, one per domain.
#[derive(Debug, Default)]
pub struct Suite {
    folder: PathBuf,
    /// One file per function.
    pub functions: Vec<SpecFile>,
    /// The setup files: that of the whole suite, and those of the domains.
    shared: Vec<SpecFile>,
}

impl Suite {
    /// Reads every `.spec` file below a folder.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut suite = Self { folder: folder.to_owned(), ..Self::default() };
        for path in spec_files(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            suite.add(parser::read(&path)?)?;
        }
        Ok(suite)
    }

    /// Adds one file.
    pub fn add(&mut self, file: SpecFile) -> Result<(), String> {
        let path = file.path.display();
        match &file.function {
            None if file.path.ends_with(SETUPS) => self.shared.push(file),
            None => return Err(format!("{path}: which function is this about?")),
            Some(function) if self.function(function).is_some() => {
                return Err(format!("{path}: {function} has a spec file already"));
            }
            Some(_) => self.functions.push(file),
        }
        Ok(())
    }

    /// Where the files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file about a function.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&SpecFile> {
        self.functions.iter().find(|file| file.function.as_deref() == Some(name))
    }

    /// The setup files that a file sees: its domain's first.
    pub fn shared_with<'a>(&'a self, file: &'a SpecFile) -> impl Iterator<Item = &'a SpecFile> {
        let folders = file.path.ancestors().skip(1);
        folders.flat_map(|folder| {
            self.shared.iter().filter(move |shared| shared.path.parent() == Some(folder))
        })
    }

    /// The setup of this name that a file sees: its own first.
    #[must_use]
    pub fn setup<'a>(&'a self, file: &'a SpecFile, name: &str) -> Option<&'a Case> {
        std::iter::once(file)
            .chain(self.shared_with(file))
            .flat_map(|file| &file.setups)
            .find(|setup| setup.name == name)
    }
}

fn spec_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for path in entries.iter().map(fs::DirEntry::path) {
        if path.is_dir() {
            files.extend(spec_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "spec") {
            files.push(path);
        }
    }
    Ok(files)
}

const SETUPS: &str = "setups.spec";
