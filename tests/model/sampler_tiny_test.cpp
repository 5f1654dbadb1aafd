#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "model/sampler.h"
#include "model/vocab.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kVocab = 64;

/// Token t has the logit -t / 8, but 10 has the most and 20 next.
std::vector<float> slope() {
  std::vector<float> logits(kVocab);
  for (int t = 0; t < kVocab; ++t) logits[size_t(t)] = -float(t) / 8;
  logits[10] = 4;
  logits[20] = 3;
  return logits;
}

class SamplerTest : public testing::Test {
 protected:
  std::vector<int32_t> draw(const SamplerOptions& options, int count) const {
    Sampler sampler(vocab_, options);
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(sampler.sample(slope()));
    return tokens;
  }
  std::set<int32_t> kinds(const SamplerOptions& options) const {
    const auto tokens = draw(options, 500);
    return {tokens.begin(), tokens.end()};
  }
  void refuse(const SamplerOptions& options, const std::string& part) const {
    expect_error(ErrorCode::usage, part, [&] { Sampler(vocab_, options); });
  }

  TinyModel tiny_{{.n_vocab = kVocab}};
  Vocab vocab_{tiny_.path()};
};

TEST_F(SamplerTest, GreedyTakesTheMost) {
  EXPECT_EQ(draw({.temperature = 0}, 3), (std::vector<int32_t>{10, 10, 10}));
  EXPECT_EQ(draw({.temperature = -1}, 1), (std::vector<int32_t>{10}));
}

TEST_F(SamplerTest, GreedyHonoursTheRepetitionPenalty) {
  EXPECT_EQ(draw({.temperature = 0, .repeat_penalty = 2}, 3), (std::vector<int32_t>{10, 20, 10}));
}

TEST_F(SamplerTest, ASeedRepeatsItsDraws) {
  const SamplerOptions options = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
  EXPECT_EQ(draw(options, 50), draw(options, 50));
  SamplerOptions other = options;
  other.seed = 8;
  EXPECT_NE(draw(options, 50), draw(other, 50));
  other.seed = 0xFFFFFFFF;
  EXPECT_EQ(draw(other, 50), draw(other, 50));
}

TEST_F(SamplerTest, StagesCutTheTail) {
  const SamplerOptions open = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  EXPECT_GT(kinds(open).size(), 10U);
  auto options = open;
  options.top_k = 2;
  EXPECT_EQ(kinds(options), (std::set<int32_t>{10, 20}));
  options = open;
  options.min_p = 0.3F;
  EXPECT_EQ(kinds(options), (std::set<int32_t>{10, 20}));
  options = open;
  options.top_p = 0.1F;
  EXPECT_EQ(kinds(options), (std::set<int32_t>{10}));
  options = open;
  options.temperature = 0.01F;
  EXPECT_EQ(kinds(options), (std::set<int32_t>{10}));
}

/// Frequencies follow softmax(logits / temperature).
TEST_F(SamplerTest, FrequenciesFollowTheTemperature) {
  const auto tokens = draw({.temperature = 2, .top_k = 2, .top_p = 1, .min_p = 0}, 4000);
  const auto share = double(std::count(tokens.begin(), tokens.end(), 10)) / 4000;
  EXPECT_NEAR(share, 1 / (1 + std::exp(-0.5)), 0.03);
}

TEST_F(SamplerTest, ValuesOutOfRangeAreRefused) {
  refuse({.temperature = NAN}, "temperature");
  refuse({.temperature = INFINITY}, "temperature");
  refuse({.top_k = -1}, "top_k");
  refuse({.top_p = 0}, "top_p");
  refuse({.top_p = 1.5F}, "top_p");
  refuse({.min_p = -0.1F}, "min_p");
  refuse({.repeat_penalty = 0}, "repeat_penalty");
  refuse({.repeat_last_n = -1}, "repeat_last_n");
  refuse({.grammar = std::string("root ::= \"a\"\0", 13)}, "zero byte");
}

TEST_F(SamplerTest, AGrammarNeedsATokenizer) {
  expect_error(ErrorCode::unsupported, "tokenizer",
               [&] { Sampler(vocab_, {.grammar = "root ::= \"a\""}); });
}

TEST_F(SamplerTest, LogitsOfAnotherVocabularyAreRefused) {
  Sampler sampler(vocab_, {});
  const std::vector<float> few(kVocab - 1);
  expect_error(ErrorCode::internal, "63 logits for a vocabulary of 64",
               [&] { sampler.sample(few); });
}

TEST_F(SamplerTest, AVocabularyWithoutTokensSaysSo) {
  EXPECT_EQ(vocab_.size(), kVocab);
  EXPECT_FALSE(vocab_.is_end(0));
  EXPECT_FALSE(vocab_.has_chat_template());
  const int32_t token = 1;
  expect_error(ErrorCode::unsupported, "no tokenizer",
               [&] { vocab_.tokenize("text", false, false); });
  expect_error(ErrorCode::unsupported, "no tokenizer", [&] { vocab_.detokenize({&token, 1}); });
  expect_error(ErrorCode::unsupported, "no tokenizer", [&] { vocab_.piece(token); });
  expect_error(ErrorCode::unsupported, "no chat template",
               [&] { vocab_.apply_chat_template({}, true); });
}

}  // namespace
}  // namespace pith::test
