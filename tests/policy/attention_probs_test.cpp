#include "policy/attention_probs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(probs.alpha, (std::vector<float>{0, 0, 0, 1, 1, 1}));
}

TEST(AttentionProbs, ExtremeLogitsStayFinite) {
  auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  for (auto& layer : synthetic.seen.query) {
    for (float& x : layer) x *= 1e4F;
  }
  // Rounding a logit of 6e4 to float moves it by up to 0.004.
  expect_reference(synthetic, 32, 0.02);
}

/// Tiles of a source against the attention of each of its positions taken as a tail of one.
void expect_tiles(const Synthetic& synthetic, const Reading& reading,
                  const std::vector<const Observation*>& parts) {
  const PolicyContext context = synthetic.context(synthetic.cache.total_entries());
  const int group = context.cache.shape().group();
  for (const int head_kv : {0, 1}) {
    std::vector<std::vector<double>> expected;
    for (const Observation* part : parts) {
      const PolicyContext at{.cache = context.cache,
                             .seen = *part,
                             .weights = context.weights,
                             .protection = {},
                             .progress = {}};
      for (int t = 0; t < int(part->positions.size()); ++t) {
        for (int h = 0; h < group; ++h) {
          expected.push_back(reference::attention(at, 1, head_kv * group + h, t));
        }
      }
    }
    size_t done = 0;
    each_attention_tile(context, reading, 1, head_kv, [&](const AttentionProbs& tile, int32_t) {
      for (int r = 0; r < tile.rows; ++r, ++done) {
        for (size_t i = 0; i < expected[done].size(); ++i) {
          const double found = int(i) < tile.entries ? double(tile.at(int(i), r)) : 0;
          ASSERT_NEAR(found, expected[done][i], 1e-5) << done << " " << i;
        }
      }
    });
    EXPECT_EQ(done, expected.size());
  }
}

TEST(AttentionTiles, GoThroughTheWholePrompt) {
  for (const int length : {1, 63, 64, 65, 150}) {
    const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {length}});
    expect_tiles(synthetic, {.source = Source::prompt}, {&synthetic.prompt});
  }
}

TEST(AttentionTiles, TheRepeatPassSeesItsOwnTokens) {
  const auto synthetic =
      make_synthetic({.shape = small_shape(), .lengths = {50, 20, 33, 9}, .log_weights = true});
  expect_tiles(synthetic, {.source = Source::repeat}, {&synthetic.repeat[0], &synthetic.repeat[1]});
}

TEST(AttentionTiles, TheTailIsThatOfAttentionProbs) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const PolicyContext context = synthetic.context(200);
  each_attention_tile(context, {.source = Source::tail, .count = 8}, 0, 1,
                      [&](const AttentionProbs& tile, int32_t first) {
                        EXPECT_EQ(first, 42);
                        EXPECT_THAT(tile.alpha,
                                    testing::Pointwise(testing::FloatNear(1e-6F),
                                                       attention_probs(context, 0, 1, 8).alpha));
                      });
}

TEST(AttentionProbs, BytesCoverTheResult) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const auto context = synthetic.context(200);
  const auto probs = attention_probs(context, 0, 0, 8);
  EXPECT_GE(attention_probs_bytes(context, 0, 0, 8), probs.alpha.size() * sizeof(float));
}

}  // namespace

}  // namespace pith::test
