// What Python describes, and the functions it calls; the Python files beside this one have the same structures.
#pragma once

#include <cstdint>

enum { DRAFT, ACCEPT, AUXILIARY, NEXT };  // draws of a position; see decoding/sampling/randomness.py
enum { FLOAT32, BFLOAT16, INT8 };         // formats of weights

extern "C" {
struct Linear {  // x @ weight + bias
  const void* panels;  // [panels, in, PANEL] float32, or else [panels, in / 2, PANEL, 2 inputs]
  const float* bias;   // [panels * PANEL] or null
  const float* scale;  // of each column of INT8 [panels * PANEL]
  int32_t in, out, format, unused;
};
struct Layer {
  Linear qkv, out, up, down;                    // up: gate and up side by side where `gated`
  const float *gain1, *bias1, *gain2, *bias2;   // LayerNorms [hidden, padded to PANEL]; null for RMS
  const float *query_gain, *key_gain;  // RMSNorms of each head [head_dim, padded]; null: none
};
struct Model {
  const Layer* layers;
  const float *gain, *bias;  // of the final norm
  int32_t count, hidden, heads, kv_heads, head_dim, intermediate;
  int32_t gated;       // SiLU(gate) * up, or ReLU
  int32_t layer_norm;  // or RMSNorm without gain, which the next matrix carries
  int32_t norm_first;  // norms before attention and MLP and a final one, or norms behind them
  float eps;           // of RMSNorm times hidden
  float head_eps;      // of each head's RMSNorm times head_dim
};
struct Pass {
  const float* inputs;     // [batch, fresh, hidden]
  const int64_t* start;    // [batch]: positions that the cache holds
  const float* rotations;  // [positions, head_dim]: cosine and sine of each pair; null: no RoPE
  float* cache;            // [layers, rows, kv_heads, keys [head_dim, capacity], values [capacity,
                           // head_dim padded to 16]]
  float* hidden;           // result [batch, fresh, hidden]
  int32_t batch, fresh, capacity, rows, first;  // the batch is rows first .. first + batch
  int32_t prefix;          // positions that all rows see
  int32_t threads;
  int32_t room;  // positions that cache and rotations have
  int32_t keep;  // the last positions, whose `hidden` is wanted; of a batch of 1 no other is made
  int32_t taps;            // layers whose inputs are wanted
  const int32_t* tap_layers;  // [taps]
  float* tapped;           // result [taps, batch, fresh, hidden]; tap_stride: from layer to layer
  int64_t tap_stride;
};

struct Sampling {
  float temperature, top_p;
  int32_t top_k;   // 0: all
  int32_t window;  // of repetition-aware sampling; 0: the plain sampler
  float often;     // occurrences in the window from which an id is drawn again
  int32_t again_without;   // drawn again from all ids but itself; or from all, bars applied behind
  int32_t end_when_likeliest;
  int32_t slots;         // positions of a frame, each with ids of its own; 0: any id anywhere
  int32_t end_in_frame;  // ids after all codes may stand at any position, else only at a first one
  float penalty;         // of ids in the prompt or before; 0 or 1: none
  int32_t unused;
  const int64_t* slot_ends;  // [slots]: the first id after the range of each; see models/slots.py
};
struct Rows {  // `batch` rows of `fresh` laws each
  const float* logits;       // [batch, fresh, vocab]
  const int64_t* positions;  // [batch, fresh]
  const int64_t* minimum;    // [batch]: positions before which `barred` ids are impossible
  const uint8_t* barred;     // [vocab]
  const uint8_t* stops;      // [vocab]
  const int64_t* history;    // [batch, capacity]: tokens so far
  const uint8_t* prompted;   // [batch, vocab]: ids in the prompt
  int64_t capacity, batch, fresh, vocab;
};
struct Reader {  // a model that is fed ids
  const Model* model;
  const Linear* head;
  const Pass* pass;        // where: what is fed, and its states, are filled in
  const void* embedding;   // [rows, hidden]
  const int64_t* order;    // row of each id; null: the id itself
  const int64_t* lengths;  // [batch]: positions of the prompts
  const float* places;     // [positions, hidden], added to what is fed; null: nothing
  const int64_t* skipped;  // [batch]: positions of each row before the first of `places`
  int32_t bfloat16, unused;  // of the embedding, else float32
};
struct Tokens {  // of a batch, as decoding/batch.py has them
  int64_t* tokens;         // [batch, capacity]: the history, and what is drawn
  double* uniforms;        // [batch, capacity, draws]
  const double* again;     // [batch, capacity, ahead, draws]: of rounds that begin at a position,
                           // those of the next ones but NEXT; null: uniforms stay what they are
  int64_t draws, ahead;
  int64_t* count;          // [batch]: tokens so far
  const int64_t* limit;    // [batch]
  uint8_t* done;           // [batch]
  const uint8_t* ends;     // [vocab + 1]: ids that end a row, and vocab, where there was no law
};
struct Walk {  // tokens one by one: each is fed, its law drawn from, what is drawn fed
  int32_t purpose;  // of the uniforms
  int32_t behind;   // tokens that the first step feeds
  int64_t steps;    // at most
  int64_t* most;    // [batch]: drafts wanted of each row; smaller where one ended sooner
                    // null: tokens are emitted, and rows advance until they are done
  float* laws;      // [batch, steps, vocab] or null
  double doubt;     // a row's last draft has a law of more entropy (nats); negative: any law will do
};
struct Groups {  // of similar tokens, as decoding/rules/group.py has them both ways
  const int32_t *token_offsets, *group_offsets;  // [tokens + 1], [count + 1]
  const void *token_groups, *group_tokens;       // uint16, or int32 if `wide`
  const double *scores, *total;  // [count], and of each token's groups together [tokens]
  const double* levels;          // token + the share at which a membership of it ends
  int64_t tokens, count, wide;
};
struct Rule {            // how drafted tokens are verified:
  double beta;           // by the tolerance, decoding/rules/acceptance.py
  const Groups* groups;  // or by groups, if not null
  int32_t block, unused;  // all of a round's at once, decoding/rules/block.py
};
struct Rounds {  // of speculation
  const Rule* rule;
  int64_t lookahead;
  int64_t rounds;   // at most; fewer where all rows are done
  int64_t* counts;  // [batch, 4 + 2 * lookahead]; see `Tally` in decoding/outcome.py
  int32_t behind, unused;  // tokens that the draft may not have seen; changes
  double* seconds;         // drafting, verifying (the target's pass and its laws), accepting; added to
  float *target, *draft;   // [batch, lookahead, vocab]: laws of the newest round, the target's as far
                           // as it got; null: nobody wants them
};
struct Heads {  // predictions of several tokens from one state
  const Linear* project;  // [n]
  const Linear* blocks;   // [n]: a head reads x + SiLU(block x); null: x
  int64_t n;
};
struct Transitions {  // logarithms, as decoding/blocks/transitions.py
  const float* table;  // [ids, ids], a row for each code after; null: by pairs
  const int64_t* keys;        // [pairs] before * ids + after, ascending
  const float *seen, *row, *column;  // of each pair; of others row[before] + column[after]
  int64_t ids, pairs;
};
struct Search {  // for a path through the heads' candidates; decoding/blocks/viterbi.py
  const Transitions* transitions;
  int64_t top_k;
  float temperature;
  int32_t joint;     // candidates of all positions are those of any head; or each head's its own
  int32_t boundary;  // the step from the token before counts
  int32_t sample;    // a path is drawn, or the best one
  int32_t end_when_likeliest, unused;
};
struct Recurrent {  // a state behind a token: x + out SiLU(inner [x, the token's input]), block by block
  const Linear *inner, *out;  // [blocks]
  int64_t blocks;
  const Linear* head;  // says the law of the next
  const int64_t* few;  // ids of its outputs, others are never drafted; null: it has all of them
};
struct Lookup {  // tokens of a batch said before: copies of what followed the newest ones
  const int64_t* heard;  // [batch, before]: the prompts' codes, the newest last; negative: none
  int64_t before;
  int64_t longest, shortest;  // tokens of a match
};
struct Drafter {  // who proposes: a model, heads or a layer on the target's newest states, or copies
  const Reader* reader;
  const Heads* heads;    // null: another one
  const Search* search;  // null: each head's token by the sampler
  float* states;         // [batch, hidden]: those that the newest tokens were drawn from
  const Recurrent* recurrent;  // or null
  const Lookup* lookup;        // or null
  double doubt;                // of the model; see `Walk`
};
struct Blocks {  // of tokens by heads
  const Heads* heads;
  const Search* search;  // null: each head's by the sampler
  int64_t blocks;        // at most; fewer where all rows are done
  int64_t *made, *dead;  // [batch]: blocks, and those without a possible path; added to
};

const char* sst_source();
int64_t sst_panel();  // columns of a panel here
int64_t sst_extend(const Model* model, const Pass* pass);
void sst_product(const Linear* linear, const float* x, int64_t rows, float* out, int32_t threads);
void sst_large_pages(void* data, int64_t bytes);
float sst_read(const float* data, int64_t count);
void sst_trim();
void sst_laws(const Sampling* sampling, const Rows* rows, float* laws);
void sst_draw(const float* laws, int64_t count, int64_t vocab, const double* uniforms,
              int64_t* ids);
void sst_verify(const Rule* rule, int64_t batch, int64_t drafted, int64_t vocab,
                const float* target, const float* draft, const int64_t* ids, const int64_t* lengths,
                const double* uniforms, int64_t* accepted, uint8_t* fallback, float* next,
                int32_t threads);
void sst_emit(const Sampling* sampling, const Rows* rows, const Tokens* batch);
int64_t sst_walk(const Reader* reader, const Sampling* sampling, const Rows* rows,
                 const Tokens* batch, const Walk* walk);
void sst_heads(const Heads* heads, const float* states, int64_t rows, float* logits,
               int32_t threads);
void sst_recurrent(const Recurrent* layer, const float* inputs, int64_t rows, float* states,
                   int32_t threads);
int64_t sst_blocks(const Reader* target, const Sampling* sampling, const Rows* rows,
                   const Tokens* batch, const Blocks* blocks);
int64_t sst_rounds(const Reader* target, const Drafter* drafter, const Sampling* sampling,
                   const Rows* rows, const Tokens* batch, Rounds* rounds);
}
