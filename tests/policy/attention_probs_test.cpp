#include "policy/attention_probs.h"

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

TEST(AttentionProbs, BytesCoverTheResult) {
  const auto synthetic = make_synthetic({.shape = small_shape(), .lengths = {50}});
  const auto context = synthetic.context(200);
  const auto probs = attention_probs(context, 0, 0, 8);
  EXPECT_GE(attention_probs_bytes(context, 0, 0, 8), probs.alpha.size() * sizeof(float));
}

}  // namespace

}  // namespace pith::test
