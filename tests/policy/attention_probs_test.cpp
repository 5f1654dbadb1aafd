#include "policy/attention_probs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/future.h"
#include "reference/attention_probs.hpp"
#include "support/synthetic.h"

namespace pith::test {

namespace {

/// Compares all heads at the last `count` observed positions with the reference.
void expect_reference(const Synthetic& synthetic, int count, double tolerance = 1e-5) {
  const PolicyContext context = synthetic.context(synthetic.cache.total_entries());
  const ModelShape& shape = synthetic.cache.shape();
  const int seen = int(synthetic.seen.positions.size());
  const int m = std::min(count, seen);
  for (int row = 0; row < shape.n_rows(); ++row) {
    const int layer = row / shape.n_head_kv;
    const int head_kv = row % shape.n_head_kv;
    const auto probs = attention_probs(context, layer, head_kv, count);
    ASSERT_EQ(probs.rows, m * shape.group());
    ASSERT_EQ(probs.entries, synthetic.cache.length(layer, head_kv));
    for (int r = 0; r < probs.rows; ++r) {
      const int head = head_kv * shape.group() + r % shape.group();
      const auto expected =
          reference::attention(context, layer, head, seen - m + r / shape.group());
      for (int i = 0; i < probs.entries; ++i) {
        ASSERT_NEAR(probs.at(i, r), expected[size_t(i)], tolerance) << row << " " << r << " " << i;
      }
    }
  }
}

TEST(AttentionProbs, AgreeWithTheReference) {
  for (const int group : {1, 3, 8}) {
    for (const int length : {1, 2, 7, 40, 100}) {
      const auto shape = small_shape(2, 2, group);
      expect_reference(make_synthetic({.shape = shape, .lengths = {length}}), 32);
    }
  }
}

TEST(AttentionProbs, RaggedRowsAndLogWeights) {
  expect_reference(
      make_synthetic({.shape = small_shape(), .lengths = {1, 60, 17, 3}, .log_weights = true}), 64);
}

TEST(AttentionProbs, PositionsBeforeTheFirstEntrySeeNothing) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {1, 60, 60, 60}});
  const auto probs = attention_probs(synthetic.context(240), 0, 0, 2);
  EXPECT_EQ(probs.alpha, (AlignedVector<float>{0, 0, 0, 1, 1, 1}));
}

TEST(AttentionProbs, ExtremeLogitsStayFinite) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  for (auto& layer : synthetic.seen.query) {
    for (float& x : layer) x *= 1e4F;
  }
  // Rounding a logit of 6e4 to float moves it by up to 0.004.
  expect_reference(synthetic, 32, 0.02);
}

/// What a part of a source should show.
struct Row {
  int32_t position;
  std::vector<double> alpha, own_output;
};

/// Rows of one KV head of layer 1 at the first `count` positions of an observation.
std::vector<Row> expected_rows(const PolicyContext& context, const Observation& part, int head_kv,
                               int count) {
  const PolicyContext at{.cache = context.cache,
                         .seen = part,
                         .weights = context.weights,
                         .protection = {},
                         .progress = {}};
  const int group = context.cache.shape().group();
  std::vector<Row> out;
  for (int t = 0; t < count; ++t) {
    for (int h = 0; h < group; ++h) {
      const int head = head_kv * group + h;
      out.push_back({part.positions[size_t(t)], reference::attention(at, 1, head, t),
                     reference::own_output(at, 1, head, t)});
    }
  }
  return out;
}

void expect_row(const AttentionProbs& tile, int r, int group, const Row& expected) {
  EXPECT_EQ(tile.positions[size_t(r / group)], expected.position);
  for (size_t i = 0; i < expected.alpha.size(); ++i) {
    const double found = int(i) < tile.entries ? double(tile.at(int(i), r)) : 0;
    ASSERT_NEAR(found, expected.alpha[i], 1e-5) << r << " " << i;
  }
  const size_t d = expected.own_output.size();
  for (size_t j = 0; j < d; ++j) {
    const double found = tile.own_output.empty() ? 0 : double(tile.own_output[size_t(r) * d + j]);
    ASSERT_NEAR(found, expected.own_output[j], 1e-5) << r << " " << j;
  }
}

/// Tiles of a source against the attention of each of its positions alone; of each part the first
/// `count` positions are read.
void expect_tiles(const Synthetic& synthetic, Source source,
                  const std::vector<const Observation*>& parts, int count = 1 << 20) {
  const PolicyContext context = synthetic.context(synthetic.cache.total_entries());
  const int group = context.cache.shape().group();
  const Reading reading{.source = source, .count = count, .outputs = true};
  int64_t positions = 0;
  for (const int head_kv : {0, 1}) {
    std::vector<Row> expected;
    for (const Observation* part : parts) {
      const auto rows =
          expected_rows(context, *part, head_kv, std::min(count, int(part->positions.size())));
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    size_t done = 0;
    each_attention_tile(context, reading, 1, head_kv, [&](const AttentionProbs& tile) {
      for (int r = 0; r < tile.rows; ++r, ++done) expect_row(tile, r, group, expected[done]);
    });
    EXPECT_EQ(done, expected.size());
    positions = int64_t(done) / group;
  }
  EXPECT_EQ(reading.positions(context, "test"), positions);
}

TEST(AttentionTiles, GoThroughTheWholePrompt) {
  for (const int length : {1, 63, 64, 65, 150}) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
    expect_tiles(synthetic, Source::prompt, {&synthetic.prompt});
  }
}

TEST(AttentionTiles, TheRepeatPassSeesItsOwnTokens) {
  const auto synthetic =
      make_synthetic({.shape = small_shape(), .lengths = {50, 20, 33, 9}, .log_weights = true});
  expect_tiles(synthetic, Source::repeat, {&synthetic.repeat[0], &synthetic.repeat[1]});
}

TEST(AttentionTiles, TheLookaheadSeesItsOwnTokensAndStopsAtTheCount) {
  const auto synthetic =
      make_synthetic({.shape = small_shape(), .lengths = {50, 20, 33, 9}, .log_weights = true});
  for (const int count : {1, 5, 12, 64}) {
    expect_tiles(synthetic, Source::lookahead, {&synthetic.lookahead}, count);
  }
}

TEST(AttentionTiles, TheFutureTurnsQueriesOfThePromptAhead) {
  for (const int length : {1, 2, 9, 100, 146, 147, 300}) {
    for (const bool neighbours : {false, true}) {
      auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
      Rotation& turn = synthetic.weights.turn;
      turn.neighbours = neighbours;
      turn.magnitude = 1.3F;  // the queries have it from when they were seen
      const Observation ahead = reference::future(synthetic.context(4));
      expect_tiles(synthetic, Source::future, {&ahead});
    }
  }
}

/// A context that holds the queries of the positions asked for, and no others, has the same tiles.
TEST(AttentionTiles, TheFutureNeedsNoOtherQueries) {
  for (const int length : {1, 9, 147, 300}) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
    const int d = small_shape().n_head * small_shape().head_dim;
    Observation few;
    few.positions = future_positions(length);
    for (const auto& layer : synthetic.prompt.query) {
      auto& rows = few.query.emplace_back();
      for (const int32_t p : few.positions) {
        rows.insert(rows.end(), layer.begin() + p * d, layer.begin() + (p + 1) * d);
      }
    }
    PolicyContext context = synthetic.context(4);
    std::vector<float> all, alpha;
    const auto collect = [&](std::vector<float>& to) {
      each_attention_tile(context, {.source = Source::future}, 1, 1,
                          [&](const AttentionProbs& tile) {
                            to.insert(to.end(), tile.alpha.begin(), tile.alpha.end());
                          });
    };
    collect(all);
    context.prompt = nullptr;
    context.future = &few;
    collect(alpha);
    ASSERT_EQ(alpha.size(), all.size());
    // Not to the last bit: how sums are split depends on where memory begins.
    for (size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(alpha[i], all[i], 1e-6) << length;
  }
}

TEST(AttentionTiles, TheFutureLeavesNumbersBehindThePairsAlone) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {60, 11, 42, 3}});
  synthetic.weights.turn.frequency.resize(3);
  const Observation ahead = reference::future(synthetic.context(80));
  expect_tiles(synthetic, Source::future, {&ahead});
}

TEST(AttentionTiles, TheFutureIsSixteenPositionsAhead) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {300}});
  std::vector<int32_t> positions;
  each_attention_tile(
      synthetic.context(300), {.source = Source::future}, 0, 0, [&](const AttentionProbs& tile) {
        positions.insert(positions.end(), tile.positions.begin(), tile.positions.end());
      });
  ASSERT_EQ(positions.size(), 128U);
  EXPECT_EQ(positions.front(), 316);
  EXPECT_EQ(positions.back(), 443);
}

TEST(AttentionTiles, TheTailIsThatOfAttentionProbs) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const PolicyContext context = synthetic.context(200);
  each_attention_tile(
      context, {.source = Source::tail, .count = 8}, 0, 1, [&](const AttentionProbs& tile) {
        EXPECT_EQ(tile.positions.front(), 42);
        EXPECT_THAT(tile.alpha, testing::Pointwise(testing::FloatNear(1e-6F),
                                                   attention_probs(context, 0, 1, 8).alpha));
      });
}

TEST(AttentionTiles, MaximaAreOverAllRows) {
  AttentionProbs tile{
      .entries = 2, .rows = 3, .alpha = {0.1F, 0.3F, 0.2F, 0, 0.4F, 0}, .positions = {7}};
  std::vector<float> most = {0.2F, 0.5F, 0.7F};
  raise_to_most(tile, most);
  EXPECT_EQ(most, (std::vector<float>{0.3F, 0.5F, 0.7F}));
}

TEST(AttentionProbs, BytesCoverTheResult) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const auto context = synthetic.context(200);
  const auto probs = attention_probs(context, 0, 0, 8);
  EXPECT_GE(attention_probs_bytes(context, 0, 0, 8), probs.alpha.size() * sizeof(float));
}

}  // namespace

}  // namespace pith::test
