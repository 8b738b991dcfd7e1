"""CosyVoice's text tokenizer: Qwen2's byte-level BPE and the special tokens added to it.

The ids of the special tokens follow from the order in which they are added, so the lists here are
the order of the official classes (`CosyVoice2Tokenizer`, `CosyVoice3Tokenizer`, at ace7c47).
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from speculative_tts.pretrained import read_tokenizer
from speculative_tts.typed import read_json, typed

END_OF_PROMPT = "<|endofprompt|>"
SPECIAL_2 = (
    *("<|im_start|>", "<|im_end|>", END_OF_PROMPT, "[breath]", "<strong>", "</strong>", "[noise]"),
    *("[laughter]", "[cough]", "[clucking]", "[accent]", "[quick_breath]", "<laughter>"),
    *("</laughter>", "[hissing]", "[sigh]", "[vocalized-noise]", "[lipsmack]", "[mn]"),
)
# CosyVoice 3 adds phonemes: CMU's with stress, then parts of pinyin with and without tone.
PHONEMES = """
AA AA0 AA1 AA2 AE AE0 AE1 AE2 AH AH0 AH1 AH2 AO AO0 AO1 AO2 AW AW0 AW1 AW2 AY AY0 AY1 AY2 B CH D
DH EH EH0 EH1 EH2 ER ER0 ER1 ER2 EY EY0 EY1 EY2 F G HH IH IH0 IH1 IH2 IY IY0 IY1 IY2 JH K L M N
NG OW OW0 OW1 OW2 OY OY0 OY1 OY2 P R S SH T TH UH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH a ai an
ang ao b c ch d e ei en eng f g h i ian in ing iu ià iàn iàng iào iá ián iáng iáo iè ié iòng
ióng iù iú iā iān iāng iāo iē iě iōng iū iǎ iǎn iǎng iǎo iǒng iǔ j k l m n o ong ou p q r s sh t
u uang ue un uo uà uài uàn uàng uá uái uán uáng uè ué uì uí uò uó uā uāi uān uāng uē uě uī uō uǎ
uǎi uǎn uǎng uǐ uǒ vè w x y z zh à ài àn àng ào á ái án áng áo è èi èn èng èr é éi én éng ér ì
ìn ìng í ín íng ò òng òu ó óng óu ù ùn ú ún ā āi ān āng āo ē ēi ēn ēng ě ěi ěn ěng ěr ī īn īng ō
ōng ōu ū ūn ǎ ǎi ǎn ǎng ǎo ǐ ǐn ǐng ǒ ǒng ǒu ǔ ǔn ǘ ǚ ǜ
"""
SPECIAL_3 = (*SPECIAL_2, "<|endofsystem|>", *(f"[{name}]" for name in PHONEMES.split()))
FILES = "vocab.json and merges.txt, or tokenizer.json"


class TextTokenizer:
    """Text to ids as the official class does it; read from the checkpoint's own folder, offline."""

    def __init__(self, folder: Path, special: tuple[str, ...]) -> None:
        """Raises ValueError when the folder has no tokenizer files."""
        pair = (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()
        if not (pair or (folder / "tokenizer.json").is_file()):
            raise ValueError(
                f"no text tokenizer in {folder}; looked for {FILES}; "
                "copy the released model's CosyVoice-BlankEN folder there"
            )
        self._folder, self._special = folder, special

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = read_tokenizer(self._folder, "copy the released model's folder again")
        if self._special:
            ends = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
            more: dict[str, Any] = {**ends, "additional_special_tokens": list(self._special)}
            tokenizer.add_special_tokens(more)
        return tokenizer

    def __len__(self) -> int:
        """Ids, special tokens included."""
        return len(self._tokenizer)

    def ids(self, text: str) -> list[int]:
        """Ids of a text, no marks around it."""
        return [int(id_) for id_ in self._tokenizer([text])["input_ids"][0]]

    def id_of(self, token: str) -> int:
        """The id of one token."""
        return int(self._tokenizer.convert_tokens_to_ids(token))


def added_tokens(folder: Path) -> dict[str, int]:
    """Tokens added to the tokenizer of a Hugging Face folder and their ids; empty when none are."""
    found: dict[str, int] = {}
    for name in ("added_tokens.json", "tokenizer_config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            continue
        row = read_json(folder / name)
        if name == "added_tokens.json":
            found |= typed(_Ids, {"ids": row}, folder / name).ids
        else:
            added = typed(_Added, row, folder / name)
            found |= {one.content: one.id for one in added.added_tokens if one.id is not None}
            named = added.added_tokens_decoder.items()
            found |= {one.content: int(id_) for id_, one in named if id_.isdecimal()}
    return found


@dataclass(frozen=True)
class _Token:
    content: str
    id: int | None = None


@dataclass(frozen=True)
class _Added:
    """Added tokens as tokenizer.json (a list) and tokenizer_config.json (by id) have them."""

    added_tokens: list[_Token] = field(default_factory=list)
    added_tokens_decoder: dict[str, _Token] = field(default_factory=dict)


@dataclass(frozen=True)
class _Ids:
    ids: dict[str, int]
