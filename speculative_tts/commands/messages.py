"""Turn an exception into one line for the user: the value, the limit, the remedy.

Hydra and OmegaConf spread a mistake over several exceptions and lines; this joins the helpful
parts.
"""

import difflib
import re
import traceback
from pathlib import Path
from typing import Any

from speculative_tts.commands.help import SEVERAL, options
from speculative_tts.schema.fields import key_types, types_of
from speculative_tts.schema.kinds import kinds_in, own_keys

DEFAULTS_LIST, SLURM = "/defaults_list.py", "/submitit/slurm/slurm.py"  # of Hydra, of submitit
SEVERAL_VALUES = re.compile(r"Ambiguous value for argument '(.+)'\n")  # a sweep where none can be
WANTED = {  # what a value must be, by what OmegaConf says of another
    "converted to Integer": "a whole number",
    "converted to Float": "a number",
    "is not a valid bool": "true or false",
    "is not Optional": "a value, not null",
}
PACKAGE = str(Path(__file__).parents[1])
INSTALLS = {  # modules of each extra
    "tiny": "faiss onnxruntime pocketsphinx pyworld resemblyzer soundfile soxr speechmos",
    "listen": "krippendorff pyloudnorm starlette uvicorn",
    "papers": "modelscope torchaudio",
    "cluster": "wandb",
    "ray": "ray",
}
EXTRAS = {module: extra for extra, modules in INSTALLS.items() for module in modules.split()}


def one_line(error: Exception, schema: type[Any]) -> str | None:
    """Return the line for a user's mistake; None if `error` is a defect."""
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(error, HydraException):
        text = _hydra_line(error, schema)
    elif isinstance(error, OmegaConfBaseException):
        text = _omegaconf_line(error, schema)
    elif isinstance(error, ModuleNotFoundError):
        text = _module_line(error)
    elif isinstance(error, yaml.YAMLError):
        reason = " ".join(str(error).split())
        text = f"a configuration is no plain YAML ({reason}); write keys and values without tags"
    elif isinstance(error, UnicodeDecodeError) and not _raised_here(error):
        text = f"a file that is read as text is not UTF-8 ({error}); save it as UTF-8"
    elif isinstance(error, OSError):
        text = _file_line(error)
    elif isinstance(error, ValueError) and not _unchosen(error):
        text = str(error) if _raised_here(error) else f"{error} (SST_DEBUG=1 shows where)"
    else:
        return _others_line(error)
    return " ".join(text.split())


def _others_line(error: Exception) -> str | None:
    """Return the line for mistakes that look like defects of Hydra, submitit or packages.

    Hydra reads each choice of a list, `rule=[null]`, as text; submitit raises RuntimeError without
    Slurm.
    """
    if isinstance(error, ImportError) and error.name is None and _raised_here(error):
        return " ".join(str(error).split())
    if _unchosen(error):
        return "a choice, or one of a list, is null or a number; give a name, such as rule=exact"
    if isinstance(error, RuntimeError) and _raised_in(error, SLURM):
        return f"{error} hydra/launcher=submitit_local runs the jobs on this machine"
    return None


def _unchosen(error: Exception) -> bool:
    """Return True if Hydra found null or a number instead of the name of a choice."""
    return isinstance(error, TypeError | ValueError) and _raised_in(error, DEFAULTS_LIST)


def _raised_in(error: Exception, file: str) -> bool:
    places = traceback.extract_tb(error.__traceback__)
    return bool(places) and places[-1].filename.endswith(file)


def _hydra_line(error: Exception, schema: type[Any]) -> str:
    text, cause = str(error), error.__cause__
    if match := re.search(r"Could not override '(.+)'\.", text):
        return unknown_key(match[1], schema)
    if match := re.search(r"Could not find '(.+?)/(.*?)'", text):
        return _unknown_choice(match[1], match[2], text)
    if match := re.search(r"In '(\w+)/(\w+)': ConfigKeyError raised .*\s+Key '(\w+)' not in", text):
        return _unknown_in_file(match[1], match[2], match[3], text, schema)
    if override := getattr(error, "override", None):  # an error of the parser of overrides
        quoted = "" if override.isalnum() else "; text with other signs in quotes, key='\"<|a|>\"'"
        return f"cannot read '{override}'; settings are written key=value{quoted}; see --help"
    if match := re.search(r"Error merging override (.+)", text):
        return _misfit(match[1], cause or error, schema)
    if match := SEVERAL_VALUES.match(text):
        text = f"{match[1]} has several values; give one, and a text with commas in quotes"
    return text.replace("You must specify", "give").replace("\n", " ")


def _misfit(override: str, cause: BaseException, schema: type[Any]) -> str:
    key, _, value = override.partition("=")
    if "is not a ListConfig" in str(cause):
        return f"{override}: a list is wanted; give {key}=[{value}]"
    if wanted := next((text for said, text in WANTED.items() if said in str(cause)), None):
        null = ", or null" if type(None) in types_of(key_types(schema).get(key)) else ""
        return f"{override}: {key} takes {wanted}{null}; --help lists the keys"
    return f"{override}: {_first_line(cause)}; --help lists the keys"


def _unknown_choice(group: str, name: str, text: str) -> str:
    """Return the line for an option of a config group that does not exist.

    It lists the packaged options and those of the user's folder. Hydra's own message lists both,
    but only of the innermost folder.
    """
    if group == "hydra" and name.startswith("launcher/"):
        return (
            f"hydra/{name.replace('/', '=')}: not installed; Slurm and Ray are in an extra: "
            "pip install 'speculative_tts[cluster]'"
        )
    there = set(options(group))
    if listed := re.search(r"Available options in '(.+)':\n((?:\t.+\n?)*)", text):
        folder = listed[1].removeprefix(group).lstrip("/")
        named = (one for one in listed[2].split() if not one.endswith("_schema"))
        there |= {f"{folder}/{option}" if folder else option for option in named}
    near = ", ".join(sorted(there)) or "none"
    return (
        f"{group}={name}: no such choice; there are {near} (--config-dir adds a folder of your own)"
    )


def _omegaconf_line(error: Exception, schema: type[Any]) -> str:
    key = getattr(error, "full_key", None)
    first = _first_line(error)
    if match := re.search(r"Missing mandatory value: (\S+)$", first):  # an interpolation
        return f"{match[1]} is not set; give {match[1]}=<value> (--help lists the keys)"
    if key and " not in '" in first:
        return unknown_key(key, schema)
    return f"{key}: {first}" if key else first


def _file_line(error: OSError) -> str:
    if not error.filename:
        return str(error)
    reason = (error.strerror or str(error)).lower()
    return f"{error.filename}: {reason}; check that path, or give another"


def _module_line(error: ModuleNotFoundError) -> str:
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    remedy = f"pip install 'speculative_tts[{extra}]'" if extra else f"install {module}"
    return f"{error}; {remedy} (docs/install.md)"


def unknown_key(key: str, schema: type[Any]) -> str:
    """Return the line for a key that does not exist, with the nearest that does."""
    group, _, own = key.partition(".")
    known = kinds_in(schema).get(group, {})
    having = [name for name, kind in known.items() if own.partition(".")[0] in own_keys(kind)]
    if having:
        choice = " or ".join(f"{group}={name}" for name in having)
        return f"{key} is a key of {choice}, and another was chosen; give {choice}"
    near = difflib.get_close_matches(key, [*key_types(schema), *SEVERAL], n=1, cutoff=0.5)
    if near == [key]:
        return f"{key} takes the name of a choice, one of {', '.join(options(key))}"
    return f"unknown key {key}; " + (
        f"did you mean {near[0]}? (--help=all lists all)" if near else "--help=all lists the keys"
    )


def _unknown_in_file(group: str, choice: str, key: str, text: str, schema: type[Any]) -> str:
    """Return the line for a key that a group's file sets and its settings do not have."""
    full = re.search(r"full_key: (\S+)", text)
    named = full[1] if full else key
    if near := difflib.get_close_matches(named, key_types(schema), n=1, cutoff=0.8):
        return f"{group}={choice} sets {named}, which is no key; did you mean {near[0]}?"
    return (
        f"{group}={choice} sets {key}, which is no key here: it is for another command; "
        f"--help={group} lists the choices"
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _raised_here(error: Exception) -> bool:
    """Return True if this package raised the error, with a message meant for users."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE)
