#include <gtest/gtest.h>

#include <numeric>

#include "policy/attention_probs.h"
#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kPrompt = 60;
constexpr int32_t kToken = 5;
const TinyModelOptions kOptions{.n_layer = 3, .n_head = 6, .n_head_kv = 2, .head_dim = 32};

class HeadShiftTest : public ::testing::TestWithParam<AttentionPath> {
 protected:
  Session prompted() const {
    Session s(model, {.threads = 2,
                      .n_ctx = 200,
                      .k_type = KvType::f32,
                      .v_type = KvType::f32,
                      .attention = GetParam()});
    s.prefill(random_tokens(kPrompt, kOptions.n_vocab, 7));
    return s;
  }

  /// Logits after `tokens`.
  static std::vector<float> run(Session& s, std::span<const int32_t> tokens,
                                const HeadShift* shift) {
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> logits;
    s.impl().engine->run(s.impl().cache,
                         {.tokens = tokens, .logit_rows = rows, .observe_rows = {}, .shift = shift},
                         logits, nullptr);
    return logits;
  }

  /// alpha / (1 - alpha) (o - v) of one entry for each query head of its group, at the token that
  /// follows the prompt; zeros for the other heads.
  std::vector<float> move_without(int layer, int head_kv, int entry) const {
    Session s = prompted();
    s.prefill({&kToken, 1}, {.tail = 1});
    const ModelShape& shape = model.shape();
    const auto view = view_of(s.impl().cache, shape);
    const PolicyContext context{.cache = *view,
                                .seen = s.impl().seen,
                                .weights = *model.impl()->view,
                                .protection = {},
                                .progress = {}};
    const AttentionProbs probs = attention_probs(context, layer, head_kv, 1);
    const int d = shape.head_dim;
    std::vector<float> values(size_t(probs.entries) * size_t(d));
    s.impl().cache.read_values(layer, head_kv, 0, values);
    std::vector<float> out(size_t(shape.n_head) * size_t(d), 0.0F);
    for (int h = 0; h < shape.group(); ++h) {
      const float odds = probs.at(entry, h) / (1 - probs.at(entry, h));
      for (int j = 0; j < d; ++j) {
        float o = 0;
        for (int i = 0; i < probs.entries; ++i) o += probs.at(i, h) * values[size_t(i * d + j)];
        out[size_t((head_kv * shape.group() + h) * d + j)] =
            odds * (o - values[size_t(entry * d + j)]);
      }
    }
    return out;
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
};

INSTANTIATE_TEST_SUITE_P(Paths, HeadShiftTest,
                         testing::Values(AttentionPath::ragged, AttentionPath::portable,
                                         AttentionPath::products));

TEST_P(HeadShiftTest, ByZeroChangesNotOneBit) {
  const auto tokens = random_tokens(9, kOptions.n_vocab, 3);
  Session s = prompted();
  const auto plain = run(s, tokens, nullptr);
  const std::vector<float> zeros(tokens.size() * 6 * 32, 0.0F);
  for (const int layer : {0, 1, 2}) {
    s.trim(kPrompt);
    const HeadShift shift{.layer = layer, .values = zeros};
    EXPECT_EQ(run(s, tokens, &shift), plain) << layer;
  }
}

/// An entry of every layer, evicted, against its move of the outputs added.
TEST_P(HeadShiftTest, ByTheMoveOfAnEvictionEqualsTheEviction) {
  constexpr int kEntry = 17, kHeadKv = 1;
  for (const int layer : {0, 1, 2}) {
    Session evicted = prompted();
    Plan plan;
    for (int row = 0; row < model.shape().n_rows(); ++row) {
      RowPlan& kept = plan.rows.emplace_back();
      for (int i = 0; i < kPrompt; ++i) {
        if (row != model.shape().row(layer, kHeadKv) || i != kEntry) kept.keep.push_back(i);
      }
    }
    evicted.impl().cache.apply(plan);
    const auto move = move_without(layer, kHeadKv, kEntry);
    const HeadShift shift{.layer = layer, .values = move};
    Session shifted = prompted(), plain = prompted();
    const auto expected = run(evicted, {&kToken, 1}, nullptr);
    const auto unmoved = run(plain, {&kToken, 1}, nullptr);
    const double error = nmse(run(shifted, {&kToken, 1}, &shift), expected);
    EXPECT_LE(error, 1e-9) << layer;
    EXPECT_GT(nmse(unmoved, expected), 100 * error) << layer;
  }
}

TEST_P(HeadShiftTest, OfAnotherSizeIsRefused) {
  Session s = prompted();
  const std::vector<float> short_by_one(6 * 32 - 1);
  const HeadShift shift{.layer = 0, .values = short_by_one};
  expect_error(ErrorCode::internal, "a shift has", [&] { run(s, {&kToken, 1}, &shift); });
}

}  // namespace
}  // namespace pith::test
