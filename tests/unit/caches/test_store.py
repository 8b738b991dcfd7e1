"""The content-keyed store: what is damaged, half written or of something else is never used."""

import json
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from speculative_tts.caches import store

DESCRIPTION = {"source": "test", "theta": 0.5}
ARRAYS = {"a": np.arange(1000, dtype=np.int32), "empty": np.zeros(0, dtype=np.float32)}


def save(root: Path) -> Path:
    return store.save_entry(root, "groups", DESCRIPTION, ARRAYS, {"n": 1000})


def remake(root: Path) -> store.Entry:
    return store.find_or_make(root, "groups", DESCRIPTION, lambda: (ARRAYS, {"n": "made again"}))


def test_what_is_saved_is_found(tmp_path: Path) -> None:
    folder = save(tmp_path)
    entry = remake(tmp_path)
    assert entry.facts == {"n": 1000}
    assert entry.folder == folder == store.folder_of(tmp_path, "groups", DESCRIPTION)
    assert entry.bytes == 4000
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]


def test_arrays_are_memory_mapped_and_the_file_cannot_be_changed_through_them(
    tmp_path: Path,
) -> None:
    folder = save(tmp_path)
    array = store.open_entry(folder).arrays["a"]
    assert isinstance(array, np.memmap)
    array[0] = 99
    assert store.open_entry(folder).arrays["a"][0] == 0


def test_a_manifest_is_for_people_and_the_folder_for_all(tmp_path: Path) -> None:
    """Below folders that are not there yet, readable by others, its text indented."""
    folder = save(tmp_path / "caches" / "mine")
    files = json.loads((folder / store.MANIFEST).read_text())["files"]
    assert {name: one["bytes"] for name, one in files.items()} == {"a.npy": 4000, "empty.npy": 0}
    assert folder.stat().st_mode & 0o777 == 0o755
    assert '{\n  "format": 2,\n  "kind": "groups",\n' in (folder / store.MANIFEST).read_text()


def test_a_folder_is_named_by_what_it_was_made_from_in_any_order() -> None:
    """By the first 16 digits of `printf '{"source": "test", "theta": 0.5}' | sha256sum`."""
    one, other = DESCRIPTION, dict(reversed(DESCRIPTION.items()))
    names = {store.folder_of(Path(), "groups", made).name for made in (one, other)}
    assert names == {"groups-134f69af240e9717"}


def test_another_description_is_another_folder(tmp_path: Path) -> None:
    other = store.folder_of(tmp_path, "groups", DESCRIPTION | {"theta": 0.6})
    assert other != store.folder_of(tmp_path, "groups", DESCRIPTION)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink], ids=["flipped bit", "cut", "gone"])
@pytest.mark.parametrize("name", ["a.npy", "manifest.json"])
def test_a_damaged_file_is_refused_and_made_again(
    tmp_path: Path, name: str, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save(tmp_path)
    damage(folder / name)  # type: ignore[operator]
    with pytest.raises(store.DamagedError, match=name):
        store.open_entry(folder)
    with caplog.at_level(logging.WARNING, "speculative_tts.caches"):
        assert remake(tmp_path).facts == {"n": "made again"}
    assert name in caplog.text
    assert "making it again" in caplog.text
    assert remake(tmp_path).facts == {"n": "made again"}


@pytest.mark.parametrize(
    "edit",
    [
        {"description": DESCRIPTION | {"theta": 0.6}},
        {"facts": {"n": 999}},
        {"files": {}},
        {"files": []},
        {"kind": "transitions"},
    ],
)
def test_an_edited_manifest_is_damage(tmp_path: Path, edit: dict[str, object]) -> None:
    manifest = save(tmp_path) / store.MANIFEST
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | edit))
    with pytest.raises(store.DamagedError, match="its sha256 is not that of its content"):
        store.open_entry(manifest.parent)
    assert remake(tmp_path).facts == {"n": "made again"}


def test_a_cache_under_another_ones_name_is_not_used(tmp_path: Path) -> None:
    other = store.save_entry(tmp_path, "groups", {"source": "other"}, ARRAYS, {"n": "other"})
    other.rename(store.folder_of(tmp_path, "groups", DESCRIPTION))
    assert remake(tmp_path).facts == {"n": "made again"}


def test_a_format_of_another_version_is_refused(tmp_path: Path) -> None:
    manifest = save(tmp_path) / store.MANIFEST
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 3'))
    with pytest.raises(store.DamagedError, match="another format"):
        store.open_entry(manifest.parent)


def test_no_folder_is_not_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.open_entry(tmp_path / "nothing")


def test_a_kill_while_writing_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    """Killed after the first array; the next save takes what was left away."""
    script = (
        "import os, sys, pathlib, numpy as np\n"
        "from speculative_tts.caches import store\n"
        "store.file_hash = lambda path: os.kill(os.getpid(), 9)\n"
        f"store.save_entry(pathlib.Path(sys.argv[1]), 'groups', {DESCRIPTION!r}, "
        "{'a': np.arange(9)}, {})\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert left[0].name.startswith(".groups-")
    entry = remake(tmp_path)
    assert entry.facts == {"n": "made again"}
    assert [p.name for p in tmp_path.iterdir()] == [entry.folder.name]


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    name = store.folder_of(tmp_path, "groups", DESCRIPTION).name
    theirs = tmp_path / f".{name}.{platform.node()}.{os.getppid()}.x"
    elsewhere = tmp_path / f".{name}.another-host.{2**22 + 1}.x"  # no process of this machine
    dead = tmp_path / f".{name}.{platform.node()}.{2**22 + 1}.x"
    for folder in (theirs, elsewhere, dead):
        folder.mkdir(parents=True)
    save(tmp_path)
    assert theirs.is_dir()
    assert elsewhere.is_dir()
    assert not dead.exists()


def test_what_another_users_process_writes_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(process: int, signal: int) -> None:
        assert signal == 0, "it is asked about, not told anything"
        raise PermissionError(process, signal)

    monkeypatch.setattr(store.os, "kill", refused)
    name = store.folder_of(tmp_path, "groups", DESCRIPTION).name
    theirs = tmp_path / f".{name}.{platform.node()}.{os.getppid()}.x"
    theirs.mkdir()
    save(tmp_path)
    assert theirs.is_dir()


def test_two_processes_may_take_the_same_leftovers_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = store.folder_of(tmp_path, "groups", DESCRIPTION).name
    dead = tmp_path / f".{name}.{platform.node()}.{2**22 + 1}.x"
    dead.mkdir()
    remove = store.shutil.rmtree

    def after_another(folder: Path, **options: bool) -> None:
        if folder == dead:
            folder.rmdir()
        remove(folder, **options)

    monkeypatch.setattr(store.shutil, "rmtree", after_another)
    save(tmp_path)
    assert not dead.exists()


@pytest.mark.parametrize(
    ("files", "held"),
    [((), "nothing"), (("f", "b", "d", "a", "e", "c"), "a, b, c, d, e and 1 more")],
)
def test_a_named_folder_that_is_no_cache_is_said_to_have_five_files(
    tmp_path: Path, files: tuple[str, ...], held: str
) -> None:
    for name in files:
        (tmp_path / name).touch()
    remedy = "make groups with sst-precompute cache=groups"
    with pytest.raises(ValueError, match=f"^{tmp_path} is no cache, it has {held}; {remedy}$"):
        store.open_named(tmp_path, "groups", ["a"])


@pytest.mark.parametrize(("kind", "names"), [("likeness", ["a"]), ("groups", ["a", "b"])])
def test_a_named_cache_is_of_its_kind_and_has_its_arrays(
    tmp_path: Path, kind: str, names: list[str]
) -> None:
    folder = save(tmp_path)
    assert store.open_named(folder, "groups", ["a"]).facts == {"n": 1000}
    told = rf"holds groups \(a, empty\), and {kind} are {', '.join(names)}; make {kind} with"
    with pytest.raises(ValueError, match=told):
        store.open_named(folder, kind, names)


def test_of_two_that_make_the_same_the_first_stays(tmp_path: Path) -> None:
    """Over a cache that another process had just renamed into its place, `rename` once failed."""

    def make() -> tuple[store.Arrays, dict[str, object]]:
        save(tmp_path)
        return ARRAYS, {"n": "second"}

    entry = store.find_or_make(tmp_path, "groups", DESCRIPTION, make)
    assert entry.facts == {"n": 1000}
    assert [p.name for p in tmp_path.iterdir()] == [entry.folder.name]


def test_a_cache_that_comes_while_the_last_one_is_moved_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = save(tmp_path)
    (place / "a.npy").unlink()
    whole = save(tmp_path / "other")
    remove = store.shutil.rmtree

    def raced(folder: Path, **options: bool) -> None:
        remove(folder, **options)
        if folder == place:
            whole.rename(place)

    monkeypatch.setattr(store.shutil, "rmtree", raced)
    assert remake(tmp_path).facts == {"n": 1000}


def test_a_cache_that_came_behind_the_check_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's was deleted while that one opened it."""
    whole = save(tmp_path / "other")
    place = store.folder_of(tmp_path, "groups", DESCRIPTION)
    looked, calls = store.open_checked, []

    def raced(folder: Path, description: store.Description) -> store.Entry:
        calls.append(folder)
        try:
            return looked(folder, description)
        finally:
            if len(calls) == 1:  # the look before it is moved into its place
                whole.rename(place)

    monkeypatch.setattr(store, "open_checked", raced)
    before = whole.stat().st_ino
    assert remake(tmp_path).facts == {"n": 1000}
    assert place.stat().st_ino == before
    assert len(calls) > 1
