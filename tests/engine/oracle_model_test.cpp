#include <gtest/gtest.h>

#include "eval/llama_peer.h"
#include "pith/pith.hpp"
#include "support/logits.h"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

constexpr int kThreads = 2;

/// The packaged model in pith and in libllama, both with an F32 cache.
class PackagedModel : public ::testing::Test {
 protected:
  std::vector<int32_t> prompt(size_t n) const {
    auto tokens = model.tokenize(long_text());
    tokens.resize(n);
    return tokens;
  }

  Session session(AttentionPath path) const {
    return Session(model, {.threads = kThreads,
                           .n_ctx = 4096,
                           .k_type = KvType::f32,
                           .v_type = KvType::f32,
                           .attention = path});
  }

  Model model = Model::load(packaged_model());
  LlamaPeer llama{packaged_model(), {.n_ctx = 4096, .threads = kThreads, .kv_type = KvType::f32}};
};

TEST_F(PackagedModel, LogitsAgreeWithLibllama) {
  const auto tokens = prompt(700);
  const auto expected = llama.run(tokens, true);
  for (const auto path : {AttentionPath::ragged, AttentionPath::portable}) {
    const auto actual = session(path).evaluate(tokens);
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_LE(mean_kl(actual, expected, size_t(model.shape().n_vocab)), 1e-4);
  }
}

TEST_F(PackagedModel, GreedyTokensAgreeWithLibllamaAfterALongPrompt) {
  const auto tokens = prompt(2000);
  auto expected = llama.run(tokens, false);
  Session pith = session(AttentionPath::ragged);
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
