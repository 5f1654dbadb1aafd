#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "pith/policy.hpp"
#include "policy/keys.h"

namespace pith {

/// Softmax attention of observed positions over the entries of one KV head.
struct AttentionProbs {
  int entries = 0;  ///< n: the entries before the last position or at it
  int rows = 0;     ///< m * group; row t * group + h is query head h of the group at position t
  AlignedVector<float> alpha;            ///< [n, rows], entry-major
  std::vector<int32_t> positions;        ///< [m], ascending: where the queries ask
  AlignedVector<float> own_output = {};  ///< [rows, head_dim], see Reading::outputs

  float at(int entry, int row) const { return alpha[size_t(entry) * size_t(rows) + size_t(row)]; }
};

/// Observed positions that a `count` of the last ones really has: fewer where fewer were seen.
int observed_count(const PolicyContext& context, int count);

/// Working memory of attention_probs, its result counted.
size_t attention_probs_bytes(const PolicyContext& context, int layer, int head_kv, int count);

/// Attention of the last `count` observed positions (fewer where fewer were seen) of a (layer, KV
/// head). A position sees the entries at its own position and before; log-weights count. Recomputed
/// from the observed queries and the cache's keys: one matrix product.
AttentionProbs attention_probs(const PolicyContext& context, int layer, int head_kv, int count);

/// The queries that a score reads.
enum class Source {
  tail,    ///< the last `count` positions
  prompt,  ///< all positions of the prompt
  future,  ///< up to 128 queries of the prompt, evenly from n/8 on, turned to positions n+16..n+143
  repeat,  ///< the repeat pass; its own tokens take their part of the attention
  lookahead  ///< the first `count` greedy tokens after the prompt; they see each other as well
};
/// Names of the above, in their order.
inline constexpr std::array<std::string_view, 5> kSourceNames = {"tail", "prompt", "future",
                                                                 "repeat", "lookahead"};

struct Reading {
  Source source = Source::tail;
  int count = 0;  ///< positions of the tail, tokens of the lookahead; else not used
  /// Tiles carry, in own_output, what tokens that are not in the cache add to the heads' outputs.
  bool outputs = false;

  Needs needs() const;
  /// Whether `count` says how many positions are read.
  bool counts() const { return source == Source::tail || source == Source::lookahead; }
  /// Positions that there are. Throws Error(usage), naming `reader`, where there are none.
  int64_t positions(const PolicyContext& context, const std::string& reader) const;
};

/// Attention of every position that `reading` names, some positions at a time and in their order,
/// so that memory does not grow with their number. `visit` may keep a tile.
void each_attention_tile(const PolicyContext& context, const Reading& reading, int layer,
                         int head_kv, const std::function<void(AttentionProbs&&)>& visit);

/// How many tiles each_attention_tile visits.
int attention_tiles(const PolicyContext& context, const Reading& reading);

/// Working memory of each_attention_tile, one tile held.
size_t attention_tile_bytes(const PolicyContext& context, const Reading& reading, int layer,
                            int head_kv);

/// What the tile's rows read [rows, head_dim]: from `values` [at least entries, head_dim] of the
/// entries, and from elsewhere (own_output).
KeyMatrix outputs_of(const AttentionProbs& tile, const KeyMatrix& values);

/// Raises `most` [entries of the row] to the most that a row of the tile pays to each entry.
void raise_to_most(const AttentionProbs& tile, std::span<float> most);

}  // namespace pith
