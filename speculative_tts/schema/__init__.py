"""Structured configurations of every command: what stages share in `common`, then a module a stage.

Each command's YAML names its schema first, so a typo or a wrong type fails before any work starts.
A `DictConfig` never travels past a command: `commands.app` turns it into these dataclasses. Paths
may start with `tiny:` for the shipped tiny assets (`tiny:target`), see `assets.resolve`.
"""

from speculative_tts.schema.common import CheckpointConfig as CheckpointConfig
from speculative_tts.schema.common import CodecConfig as CodecConfig
from speculative_tts.schema.common import Device as Device
from speculative_tts.schema.common import DType as DType
from speculative_tts.schema.common import GroupsConfig as GroupsConfig
from speculative_tts.schema.common import ListConfig as ListConfig
from speculative_tts.schema.common import RowsConfig as RowsConfig
from speculative_tts.schema.common import Similarity as Similarity
from speculative_tts.schema.common import Smoothing as Smoothing
from speculative_tts.schema.common import TransitionsConfig as TransitionsConfig
from speculative_tts.schema.common import Weights as Weights
from speculative_tts.schema.decode import ALWAYS as ALWAYS
from speculative_tts.schema.decode import LAWS as LAWS
from speculative_tts.schema.decode import READS as READS
from speculative_tts.schema.decode import BenchConfig as BenchConfig
from speculative_tts.schema.decode import Candidates as Candidates
from speculative_tts.schema.decode import Capture as Capture
from speculative_tts.schema.decode import DecodeConfig as DecodeConfig
from speculative_tts.schema.decode import DrafterConfig as DrafterConfig
from speculative_tts.schema.decode import Drafting as Drafting
from speculative_tts.schema.decode import Encoding as Encoding
from speculative_tts.schema.decode import EngineConfig as EngineConfig
from speculative_tts.schema.decode import ExactRule as ExactRule
from speculative_tts.schema.decode import GroupRule as GroupRule
from speculative_tts.schema.decode import HeadsConfig as HeadsConfig
from speculative_tts.schema.decode import HeadsDrafterConfig as HeadsDrafterConfig
from speculative_tts.schema.decode import Kernels as Kernels
from speculative_tts.schema.decode import LMDrafterConfig as LMDrafterConfig
from speculative_tts.schema.decode import PathMode as PathMode
from speculative_tts.schema.decode import Repetition as Repetition
from speculative_tts.schema.decode import Rule as Rule
from speculative_tts.schema.decode import RuleConfig as RuleConfig
from speculative_tts.schema.decode import RuntimeConfig as RuntimeConfig
from speculative_tts.schema.decode import SamplingConfig as SamplingConfig
from speculative_tts.schema.decode import SpeakConfig as SpeakConfig
from speculative_tts.schema.decode import System as System
from speculative_tts.schema.decode import ToleranceRule as ToleranceRule
from speculative_tts.schema.decode import ViterbiConfig as ViterbiConfig
from speculative_tts.schema.evaluate import CheckConfig as CheckConfig
from speculative_tts.schema.evaluate import Checked as Checked
from speculative_tts.schema.evaluate import CheckTargetConfig as CheckTargetConfig
from speculative_tts.schema.evaluate import Encoder as Encoder
from speculative_tts.schema.evaluate import EvalConfig as EvalConfig
from speculative_tts.schema.evaluate import JudgesConfig as JudgesConfig
from speculative_tts.schema.evaluate import Paper as Paper
from speculative_tts.schema.evaluate import Recogniser as Recogniser
from speculative_tts.schema.evaluate import ReportConfig as ReportConfig
from speculative_tts.schema.listen import ListenConfig as ListenConfig
from speculative_tts.schema.listen import ListeningTest as ListeningTest
from speculative_tts.schema.listen import ListenStep as ListenStep
from speculative_tts.schema.prepare import Cache as Cache
from speculative_tts.schema.prepare import Corpus as Corpus
from speculative_tts.schema.prepare import FreshConfig as FreshConfig
from speculative_tts.schema.prepare import ImportConfig as ImportConfig
from speculative_tts.schema.prepare import ListFormat as ListFormat
from speculative_tts.schema.prepare import Origin as Origin
from speculative_tts.schema.prepare import PrecomputeConfig as PrecomputeConfig
from speculative_tts.schema.prepare import PrepareConfig as PrepareConfig
from speculative_tts.schema.train import Architecture as Architecture
from speculative_tts.schema.train import HeadKind as HeadKind
from speculative_tts.schema.train import LossConfig as LossConfig
from speculative_tts.schema.train import Optimiser as Optimiser
from speculative_tts.schema.train import Selection as Selection
from speculative_tts.schema.train import TrainDraftConfig as TrainDraftConfig
from speculative_tts.schema.train import TrainHeadsConfig as TrainHeadsConfig
from speculative_tts.schema.train import TrainTargetConfig as TrainTargetConfig
from speculative_tts.schema.train import ValleTrainingConfig as ValleTrainingConfig
