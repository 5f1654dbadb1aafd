#include <gtest/gtest.h>

#include "eval/llama_peer.h"
#include "pith/pith.hpp"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kTokens = 150;

std::vector<float> pith_logits(const std::string& path, std::span<const int32_t> tokens,
                               AttentionPath attention) {
  Session session(Model::load(path), {.threads = 2,
                                      .n_ctx = 512,
                                      .n_ubatch = 64,
                                      .k_type = KvType::f32,
                                      .v_type = KvType::f32,
                                      .attention = attention});
  return session.evaluate(tokens);
}

std::vector<float> llama_logits(const std::string& path, std::span<const int32_t> tokens) {
  LlamaPeer llama(path, {.n_ctx = 512, .n_ubatch = 64, .threads = 2, .kv_type = KvType::f32});
  return llama.run(tokens, true);
}

/// pith and libllama on one random model, every attention path, F32 cache.
void expect_agreement(const TinyModelOptions& options, double bound) {
  const TinyModel tiny(options);
  const auto tokens = random_tokens(kTokens, options.n_vocab, options.seed);
  const auto expected = llama_logits(tiny.path(), tokens);
  for (const auto path :
       {AttentionPath::ragged, AttentionPath::portable, AttentionPath::products}) {
    const auto actual = pith_logits(tiny.path(), tokens, path);
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_LE(nmse(actual, expected), bound) << "path " << int(path);
  }
}

TEST(Oracle, EveryHeadGroupingTiedAndUntied) {
  for (const int group : {1, 3, 8}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE("group " + std::to_string(group) + (tied ? ", tied" : ""));
      expect_agreement({.n_head = 2 * group, .n_head_kv = 2, .head_dim = 32, .tied = tied}, 1e-6);
    }
  }
}

TEST(Oracle, RopeFactorsBiasesAndBase) {
  expect_agreement({.rope_freqs = true}, 1e-6);
  expect_agreement({.biases = true, .rope_freq_base = 500000}, 1e-6);
}

/// The kernels round activations to F16 or 8 bits for these weights, so that a difference in an
/// input's last bit can become one of a whole step.
TEST(Oracle, EveryWeightType) {
  for (const auto type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                          GGML_TYPE_Q4_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
    SCOPED_TRACE(ggml_type_name(type));
    const double bound = ggml_is_quantized(type) ? 5e-4 : 1e-5;
    expect_agreement({.n_head = 8, .head_dim = 32, .n_embd = 256, .n_ff = 512, .type = type},
                     bound);
  }
}

}  // namespace
}  // namespace pith::test
