#include <gtest/gtest.h>

#include "eval/llama_peer.h"
#include "pith/pith.hpp"
#include "support/dequantized_model.h"
#include "support/logits.h"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

constexpr int kThreads = 2;
constexpr int kContext = 2560;

/// Logits after each token, F32 cache.
std::vector<float> pith_logits(const std::string& path, std::span<const int32_t> tokens,
                               AttentionPath attention) {
  Session session(Model::load(path), {.threads = kThreads,
                                      .n_ctx = kContext,
                                      .k_type = KvType::f32,
                                      .v_type = KvType::f32,
                                      .attention = attention});
  return session.evaluate(tokens);
}

LlamaPeer peer(const std::string& path, bool flash_attention) {
  return LlamaPeer(path, {.n_ctx = kContext,
                          .threads = kThreads,
                          .flash_attention = flash_attention,
                          .kv_type = KvType::f32});
}

/// The packaged model, in pith and in libllama with flash attention off.
class PackagedModel : public ::testing::Test {
 protected:
  std::vector<int32_t> prompt(size_t n) const {
    auto tokens = model.tokenize(long_text());
    tokens.resize(n);
    return tokens;
  }
  double kl(std::span<const float> a, std::span<const float> b) const {
    EXPECT_EQ(a.size(), b.size());
    return mean_kl(a, b, size_t(model.shape().n_vocab));
  }

  std::string path = packaged_model();
  Model model = Model::load(path);
};

TEST_F(PackagedModel, LogitsAreLibllamasWithItsOrderOfSums) {
  const auto tokens = prompt(600);
  EXPECT_LE(
      kl(pith_logits(path, tokens, AttentionPath::products), peer(path, false).run(tokens, true)),
      1e-4);
}

/// Products with 4-bit weights round activations to 8 bits: a last bit that differs can become a
/// step of 1/127. So another order of sums moves the logits as far as libllama's own two settings
/// are apart.
TEST_F(PackagedModel, OwnAttentionDiffersNoMoreThanLibllamasSettingsDo) {
  const auto tokens = prompt(600);
  const auto expected = peer(path, false).run(tokens, true);
  const double between_settings = kl(peer(path, true).run(tokens, true), expected);
  for (const auto attention : {AttentionPath::ragged, AttentionPath::portable}) {
    EXPECT_LE(kl(pith_logits(path, tokens, attention), expected), 1.5 * between_settings);
  }
}

/// Nor do products with 4-bit weights by the own kernel move them further from the same weights
/// unrounded than ggml's do.
TEST_F(PackagedModel, OwnProductsAreAsNearToUnroundedOnes) {
  const DequantizedModel copy(path);
  const auto tokens = prompt(600);
  const auto exact = pith_logits(copy.path(), tokens, AttentionPath::products);
  const double ggml = kl(pith_logits(path, tokens, AttentionPath::products), exact);
  const double own = kl(pith_logits(path, tokens, AttentionPath::ragged), exact);
  EXPECT_GT(ggml, 1e-4);  // they do round
  EXPECT_LE(own, 1.2 * ggml);
}

/// Without that rounding the paths agree closely.
TEST_F(PackagedModel, LogitsAgreeWithLibllamaOnDequantizedWeights) {
  const DequantizedModel copy(path);
  const auto tokens = prompt(300);
  const auto expected = peer(copy.path(), false).run(tokens, true);
  for (const auto attention : {AttentionPath::ragged, AttentionPath::portable}) {
    const auto actual = pith_logits(copy.path(), tokens, attention);
    EXPECT_LE(nmse(actual, expected), 1e-6);
    EXPECT_LE(kl(actual, expected), 1e-4);
  }
}

/// Keys and values as bytes, in half the memory, on weights that round no activations: the own
/// attention reads them as they are and moves predictions least; ggml's rounds the queries, too.
TEST_F(PackagedModel, ACacheOfBytesSaysNearlyTheSame) {
  const DequantizedModel copy(path);
  const auto tokens = prompt(300);
  const auto exact = pith_logits(copy.path(), tokens, AttentionPath::ragged);
  const auto changed = [&](AttentionPath attention) {
    Session session(Model::load(copy.path()), {.threads = kThreads,
                                               .n_ctx = kContext,
                                               .k_type = KvType::q8_0,
                                               .v_type = KvType::q8_0,
                                               .attention = attention});
    return kl(session.evaluate(tokens), exact);
  };
  LlamaPeer llama(
      copy.path(),
      {.n_ctx = kContext, .threads = kThreads, .flash_attention = true, .kv_type = KvType::q8_0});
  const double llamas = kl(llama.run(tokens, true), exact), own = changed(AttentionPath::ragged);
  EXPECT_GT(own, 1e-6);  // it does round
  EXPECT_LE(own, 1e-3);
  EXPECT_LE(own, 1.2 * llamas);
  for (const auto attention : {AttentionPath::portable, AttentionPath::products}) {
    EXPECT_LE(changed(attention), 5e-3);
  }
}

TEST_F(PackagedModel, ACacheOfBytesIsCompressedAsAnyOther) {
  const auto tokens = prompt(600);
  Session bytes(
      model,
      {.threads = kThreads, .n_ctx = kContext, .k_type = KvType::q8_0, .v_type = KvType::q8_0});
  Session halves(model, {.threads = kThreads, .n_ctx = kContext});
  for (Session* session : {&bytes, &halves}) session->prefill(tokens);
  const auto before = halves.fork().evaluate(std::span(tokens).first(64));
  const Receipt small = bytes.compress("sensitivity", "50%");
  const Receipt large = halves.compress("sensitivity", "50%");
  EXPECT_EQ(small.entries_kept, large.entries_kept);
  EXPECT_LT(double(small.bytes_kept), 0.56 * double(large.bytes_kept));
  const auto a = bytes.evaluate(std::span(tokens).first(64));
  const auto b = halves.evaluate(std::span(tokens).first(64));
  EXPECT_LE(kl(a, b), 0.5 * kl(b, before));
}

TEST_F(PackagedModel, DequantizingAtLoadEqualsADequantizedFile) {
  const DequantizedModel copy(path);
  const auto tokens = prompt(50);
  Session session(Model::load(path, {.dequantize_weights = true}),
                  {.threads = kThreads, .k_type = KvType::f32, .v_type = KvType::f32});
  EXPECT_LE(nmse(session.evaluate(tokens), pith_logits(copy.path(), tokens, AttentionPath::ragged)),
            1e-12);
}

/// On F32 weights: the packaged ones round activations, by which logits may move more than the best
/// two tokens are apart.
TEST_F(PackagedModel, GreedyTokensAgreeWithLibllamaAfterALongPrompt) {
  const DequantizedModel copy(path);
  const auto tokens = prompt(2000);
  LlamaPeer llama = peer(copy.path(), false);
  auto expected = llama.run(tokens, false);
  Session pith(
      Model::load(copy.path()),
      {.threads = kThreads, .n_ctx = kContext, .k_type = KvType::f32, .v_type = KvType::f32});
  pith.prefill(std::span(tokens).first(tokens.size() - 1));
  auto actual = pith.decode(tokens.back());
  for (int i = 0; i < 64; ++i) {
    const int32_t token = argmax(expected);
    if (argmax(actual) != token) {
      EXPECT_LE(top_gap(expected), 0.02F) << "at generated token " << i;
    }
    expected = llama.run({&token, 1}, false);
    actual = pith.decode(token);
  }
}

}  // namespace
}  // namespace pith::test
