#include <gtest/gtest.h>

#include <cmath>

#include "model/sampler.h"
#include "model/vocab.h"
#include "support/expect_error.h"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

class PackagedVocab : public testing::Test {
 protected:
  /// Text made by sampling with every logit equal until an end token.
  std::string constrained(const std::string& grammar, uint32_t seed, float temperature) const {
    Sampler sampler(vocab_, {.temperature = temperature,
                             .top_k = 0,
                             .top_p = 1,
                             .min_p = 0,
                             .seed = seed,
                             .grammar = grammar});
    const std::vector<float> logits(size_t(vocab_.size()));
    std::string text;
    for (int i = 0; i < 64; ++i) {
      const int32_t token = sampler.sample(logits);
      if (vocab_.is_end(token)) return text;
      text += vocab_.piece(token);
    }
    return text;
  }

  Vocab vocab_{packaged_model()};
};

TEST_F(PackagedVocab, TextSurvivesTheRoundTrip) {
  for (const std::string& text :
       {std::string("The quick brown fox."), std::string("  two  spaces\n\ttab"), std::string(),
        std::string("Gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80"),
        std::string("a\0b", 3), long_text()}) {
    EXPECT_EQ(vocab_.detokenize(vocab_.tokenize(text, false, false)), text);
  }
}

TEST_F(PackagedVocab, PiecesMakeTheText) {
  const std::string text = "Emoji \xf0\x9f\xa6\x92 in pieces";
  std::string joined;
  for (const int32_t token : vocab_.tokenize(text, false, false)) joined += vocab_.piece(token);
  EXPECT_EQ(joined, text);
}

TEST_F(PackagedVocab, SpecialTextIsATokenOnlyWhereAsked) {
  const auto token = vocab_.tokenize("<|im_end|>", false, true);
  ASSERT_EQ(token.size(), 1U);
  EXPECT_TRUE(vocab_.is_end(token[0]));
  EXPECT_EQ(vocab_.piece(token[0]), "<|im_end|>");
  EXPECT_GT(vocab_.tokenize("<|im_end|>", false, false).size(), 1U);
  EXPECT_FALSE(vocab_.is_end(vocab_.tokenize("word", false, false)[0]));
}

TEST_F(PackagedVocab, BadTextAndTokensAreNamed) {
  expect_error(ErrorCode::bad_file, "not UTF-8 at byte 3",
               [&] { vocab_.tokenize("abc\xff", false, false); });
  const int32_t tokens[] = {0, vocab_.size()};
  expect_error(ErrorCode::usage, "of a vocabulary of", [&] { vocab_.detokenize(tokens); });
  expect_error(ErrorCode::usage, "token -1", [&] { vocab_.piece(-1); });
  EXPECT_FALSE(vocab_.is_end(-1));
}

TEST_F(PackagedVocab, ChatTemplate) {
  ASSERT_TRUE(vocab_.has_chat_template());
  const ChatMessage messages[] = {{"system", "Be brief."}, {"user", "Hello"}};
  EXPECT_EQ(vocab_.apply_chat_template(messages, true),
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
  const ChatMessage with_long[] = {{"user", std::string(100000, 'x')}};
  EXPECT_GT(vocab_.apply_chat_template(with_long, false).size(), 100000U);
  const ChatMessage with_zero[] = {{"user", std::string("a\0b", 3)}};
  expect_error(ErrorCode::bad_file, "zero byte",
               [&] { vocab_.apply_chat_template(with_zero, true); });
}

TEST_F(PackagedVocab, AGrammarIsFollowed) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const std::string text = constrained("root ::= (\"yes\" | \"no\") [0-9]", seed, 1);
    EXPECT_TRUE(text.size() == 4 || text.size() == 3) << text;
    EXPECT_TRUE(text.starts_with("yes") || text.starts_with("no")) << text;
    EXPECT_TRUE(text.back() >= '0' && text.back() <= '9') << text;
  }
  EXPECT_EQ(constrained("root ::= \"only this\"", 0, 0), "only this");
}

TEST_F(PackagedVocab, AGrammarThatDoesNotParseIsRefused) {
  for (const char* bad : {"root ::= (", "other ::= \"a\"", "root ::= undefined", "not a grammar"}) {
    expect_error(ErrorCode::usage, "grammar", [&] { Sampler(vocab_, {.grammar = bad}); });
  }
}

TEST_F(PackagedVocab, AGrammarThatForbidsEveryTokenIsAnError) {
  Sampler sampler(vocab_, {.grammar = "root ::= \"a\""});
  std::vector<float> logits(size_t(vocab_.size()), -INFINITY);
  expect_error(ErrorCode::unsupported, "the grammar allows none", [&] { sampler.sample(logits); });
}

}  // namespace
}  // namespace pith::test
