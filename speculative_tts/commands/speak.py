"""Speak a text in the voice of a prompt, at once, and say what speculation bought.

The prompt is a recording (with prompt_text, the words spoken in it) or a speaker of the test list.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from speculative_tts.assets import resolve
from speculative_tts.commands import app
from speculative_tts.records import ListItem, read_list
from speculative_tts.schema import SpeakConfig, System

if TYPE_CHECKING:
    from speculative_tts.decoding.engine import Timed


def run(config: SpeakConfig) -> int:
    """Speak one text, speculatively and autoregressively, and write the speculative audio."""
    from speculative_tts.codecs.audio import read_wave, write_wave
    from speculative_tts.decoding.build import build_engine
    from speculative_tts.decoding.run import encode_prompt

    app.at_least(config, 1, "runtime.threads")
    app.at_least(config, 0, "runtime.warmup")
    out = Path(config.out)
    app.require_writable(out.parent)
    prompt = find_prompt(config)
    engine = build_engine(
        config.target,
        config.draft,
        config.codec,
        config.rule,
        config.sampling,
        config.runtime,
        config.lookahead,
    )
    engine.target.layout.text_ids(config.text, prompt.prompt_text)
    wave = read_wave(Path(prompt.prompt_audio), engine.codec.sample_rate)
    codes = encode_prompt(engine, wave, prompt.prompt_audio)
    request = engine.request("speak", config.text, prompt.prompt_text, codes, config.seed)
    for _ in range(config.runtime.warmup):
        engine.decode(System.speculative, [request])
    timed = {
        system: engine.decode(system, [request]) for system in (System.target, System.speculative)
    }
    outcome = timed[System.speculative].outcomes[0]
    spoken = engine.audio(outcome, config.text, prompt.prompt_text, codes).wave
    write_wave(out, spoken, engine.codec.sample_rate)
    seconds = len(spoken) / engine.codec.sample_rate
    print(summary(out, seconds, timed[System.target], timed[System.speculative]))
    return 0


def find_prompt(config: SpeakConfig) -> ListItem:
    """The voice prompt that was asked for; ValueError when it is neither file nor speaker."""
    items = read_list(resolve(config.data.path))
    if config.prompt is None:
        return items[0]
    for item in items:
        if item.speaker == config.prompt:
            return item
    if not Path(config.prompt).is_file():
        speakers = ", ".join(sorted({item.speaker for item in items}))
        raise ValueError(
            f"prompt {config.prompt} is neither a file nor a speaker; speakers: {speakers}"
        )
    if not config.prompt_text:
        raise ValueError(
            f'the words spoken in {config.prompt} are needed; add prompt_text="<words>", '
            "in the vocabulary of the model"
        )
    return ListItem(
        id="prompt", text=config.text, prompt_audio=config.prompt, prompt_text=config.prompt_text
    )


def summary(out: Path, seconds: float, baseline: "Timed", own: "Timed") -> str:
    """Two lines for people."""
    outcome, plain = own.outcomes[0], baseline.outcomes[0]
    per_token = [t.seconds / len(t.outcomes[0].tokens) for t in (baseline, own)]
    rate = outcome.accepted / max(outcome.drafted, 1)
    length = (len(outcome.tokens) - 1) / max(outcome.rounds, 1)
    end = "" if outcome.stopped else " (cut at the length limit)"
    return (
        f"{out}: {seconds:.2f} s of speech, "
        f"{len(outcome.tokens)} tokens in {own.seconds:.3f} s{end}\n"
        f"accepted {rate:.0%} of the drafted tokens, {length:.2f} tokens a round; "
        f"{per_token[0] / per_token[1]:.2f}x the tokens/s of the same engine without a draft "
        f"({len(plain.tokens)} tokens in {baseline.seconds:.3f} s)"
    )


main = app.command(
    "speak",
    SpeakConfig,
    run,
    examples=(
        'sst-speak text="alpha seven tango"',
        'sst-speak text="lima nine" prompt=voice.wav prompt_text="echo two zulu" out=x.wav',
    ),
    verbatim=("text", "prompt_text", "prompt", "out"),
    implied=app.RULE_OF_KEY,
)
