use super::*;
use crate::log::faults::{Effect, Fault, FaultyFiles, Operation};

fn faulty() -> (tempfile::TempDir, FaultyFiles) {
    (
        tempfile::tempdir().unwrap(),
        FaultyFiles::new(DiskFiles::shared()),
    )
}

#[test]
fn positional_reads_and_writes() {
    let (dir, files) = faulty();
    let path = dir.path().join("a");
    let file = files.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(b"world", 6).unwrap();
    let (mut first, second) = (*b"hel", *b"lo ");
    first[0] = b'H';
    file.write_all_vectored_at(
        &mut [IoSlice::new(&first), IoSlice::new(&[]), IoSlice::new(&second)],
        0,
    )
    .unwrap();
    let mut all = [0; 11];
    file.read_exact_at(&mut all, 0).unwrap();
    assert_eq!(&all, b"Hello world");
    assert_eq!(file.read_full_at(&mut all, 8).unwrap(), 3);
    let error = file.read_exact_at(&mut all, 8).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    file.set_modified(1_234_567).unwrap();
    let info = files.metadata(&path).unwrap();
    assert_eq!(
        (info.kind, info.len, info.modified_ms),
        (FileKind::File, 11, 1_234_567)
    );
    assert_eq!(
        files.open(&path, OpenMode::CreateNew).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(
        files
            .open(&path, OpenMode::OpenOrCreate)
            .unwrap()
            .info()
            .unwrap()
            .len,
        11
    );
    assert_eq!(
        files.open(&path, OpenMode::Truncate).unwrap().info().unwrap().len,
        0
    );
}

#[test]
fn more_slices_than_the_kernel_takes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = DiskFiles.open(&path, OpenMode::CreateNew).unwrap();
    let bytes: Vec<[u8; 1]> = (0..3000_u32).map(|n| [n as u8]).collect();
    let mut slices: Vec<IoSlice<'_>> = bytes.iter().map(|byte| IoSlice::new(byte)).collect();
    file.write_all_vectored_at(&mut slices, 0).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes.concat());
}

#[test]
fn links_are_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    std::fs::write(&target, b"x").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for mode in [
        OpenMode::Read,
        OpenMode::ReadWrite,
        OpenMode::OpenOrCreate,
        OpenMode::Truncate,
    ] {
        assert!(DiskFiles.open(&link, mode).is_err(), "{mode:?}");
    }
    assert_eq!(DiskFiles.metadata(&link).unwrap().kind, FileKind::Other);
    let kinds: Vec<_> = DiskFiles.list(dir.path()).unwrap();
    let entry = |name: &str, kind| DirectoryEntry {
        name: name.to_owned(),
        kind,
    };
    assert_eq!(
        kinds,
        [entry("link", FileKind::Other), entry("target", FileKind::File)]
    );
    assert_eq!(std::fs::read(&target).unwrap(), b"x");
}

#[test]
fn short_and_interrupted_calls_are_gone_on_with() {
    for effect in [Effect::Short(1), Effect::Short(3), Effect::Eintr] {
        for nth in 0..3 {
            let (dir, files) = faulty();
            let path = dir.path().join("a");
            files.inject(Fault::nth(Operation::Write, nth, effect));
            files.inject(Fault::nth(Operation::Read, nth, effect));
            let file = files.open(&path, OpenMode::CreateNew).unwrap();
            file.write_all_at(b"0123", 0).unwrap();
            file.write_all_vectored_at(&mut [IoSlice::new(b"45"), IoSlice::new(b"6789")], 4)
                .unwrap();
            file.write_all_at(b"ab", 10).unwrap();
            let mut all = [0; 12];
            for piece in all.chunks_mut(4).enumerate() {
                file.read_exact_at(piece.1, piece.0 as u64 * 4).unwrap();
            }
            assert_eq!(&all, b"0123456789ab", "{effect:?} at {nth}");
            assert_eq!(files.hit(), 2);
        }
    }
}

/// Whatever call of a replacement fails, the old content or the new is there, never anything else.
#[test]
fn a_replacement_is_all_or_nothing() {
    let run = |files: &FaultyFiles, path: &Path| replace(files, path, b"the new content");
    let (dir, files) = faulty();
    run(&files, &dir.path().join("x")).unwrap();
    let calls = files.total();
    assert!(calls >= 5, "create, write, fsync, rename, fsync of the directory");
    for nth in 0..calls {
        for effect in [Effect::Eio, Effect::Enospc, Effect::Torn(3), Effect::Crash(5)] {
            let (dir, files) = faulty();
            let path = dir.path().join("x");
            std::fs::write(&path, b"old").unwrap();
            files.inject(Fault::any(nth, effect));
            let error = run(&files, &path).unwrap_err();
            assert_eq!(error.is_full_disk(), effect == Effect::Enospc, "{error}");
            let content = std::fs::read(&path).unwrap();
            assert!(
                content == b"old" || content == b"the new content",
                "{effect:?} at {nth}"
            );
            files.heal();
            run(&files, &path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"the new content");
        }
    }
}

#[test]
fn small_files_are_bounded_and_must_be_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    assert!(read_small(&DiskFiles, &path, 10).unwrap().is_none());
    std::fs::write(&path, b"0123456789").unwrap();
    assert_eq!(read_small(&DiskFiles, &path, 10).unwrap().unwrap(), b"0123456789");
    let error = read_small(&DiskFiles, &path, 9).unwrap_err();
    assert!(
        error.to_string().contains("10 bytes long, the limit is 9"),
        "{error}"
    );
    let error = read_small(&DiskFiles, dir.path(), 10).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_full_and_a_read_only_disk_are_told_apart() {
    let (dir, files) = faulty();
    let path = dir.path().join("a");
    files.set_full(true);
    let error = replace(&files, &path, b"x").unwrap_err();
    assert!(error.is_full_disk() && !error.is_read_only(), "{error}");
    files.heal();
    files.set_read_only(true);
    let error = replace(&files, &path, b"x").unwrap_err();
    assert!(error.is_read_only() && !error.is_full_disk(), "{error}");
    assert!(error.to_string().contains("a.tmp"), "{error}");
    assert!(!unlink_if_present(&DiskFiles, &path).unwrap());
}
