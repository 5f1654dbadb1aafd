#include "model/tokenizer_check.h"

#include <ggml-cpp.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"

namespace pith::test {
namespace {

class CheckTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    gguf_set_val_str(g(), "tokenizer.ggml.model", "llama");
    tokens({"<unk>", "<s>", "</s>", "a"});
  }
  gguf_context* g() { return header_.get(); }
  void tokens(std::vector<const char*> texts) {
    gguf_set_arr_str(g(), "tokenizer.ggml.tokens", texts.data(), texts.size());
  }
  template <typename T>
  void values(const char* key, gguf_type type, std::vector<T> numbers) {
    gguf_set_arr_data(g(), key, type, numbers.data(), numbers.size());
  }
  void refuse(const std::string& part, ErrorCode code = ErrorCode::bad_file) {
    expect_error(code, part, [&] { check_tokenizer(g()); });
  }

  gguf_context_ptr header_{gguf_init_empty()};
};

TEST_F(CheckTokenizer, AcceptsWhatHoldsTogether) {
  values<float>("tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, {0, 0, 0, 1});
  values<int32_t>("tokenizer.ggml.token_type", GGUF_TYPE_INT32, {2, 3, 3, 1});
  EXPECT_NO_THROW(check_tokenizer(g()));
  gguf_set_val_str(g(), "tokenizer.ggml.model", "no_vocab");
  tokens({"a", "a"});
  EXPECT_NO_THROW(check_tokenizer(g()));
}

TEST_F(CheckTokenizer, TokensThatRepeat) {
  tokens({"a", "b", "c", "a"});
  refuse("token 3 of tokenizer.ggml.tokens occurs twice");
  tokens({"", "", "c", "d"});  // libllama names empty ones by their number
  EXPECT_NO_THROW(check_tokenizer(g()));
  tokens({"", "[EMPTY_0]", "c", "d"});
  refuse("token 1 of tokenizer.ggml.tokens occurs twice");
}

TEST_F(CheckTokenizer, ArraysOfAnotherSizeOrType) {
  values<float>("tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, {0, 0, 0});
  refuse("tokenizer.ggml.scores has 3 values for 4 tokens");
  values<double>("tokenizer.ggml.scores", GGUF_TYPE_FLOAT64, {0, 0, 0, 0});
  refuse("tokenizer.ggml.scores is not an array of f32");
  gguf_remove_key(g(), "tokenizer.ggml.scores");
  values<int8_t>("tokenizer.ggml.token_type", GGUF_TYPE_INT8, {1, 1, 1, 1});
  refuse("tokenizer.ggml.token_type is not an array of i32");
  gguf_remove_key(g(), "tokenizer.ggml.token_type");
  values<int8_t>("tokenizer.ggml.merges", GGUF_TYPE_INT8, {1});
  refuse("tokenizer.ggml.merges is not an array of str");
}

TEST_F(CheckTokenizer, SpecialTokensOutsideTheVocabulary) {
  gguf_set_val_u32(g(), "tokenizer.ggml.bos_token_id", 4);
  refuse("bos_token_id: token 4 of 4");
  gguf_set_val_u32(g(), "tokenizer.ggml.bos_token_id", 1);
  gguf_set_val_u32(g(), "tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
  refuse("eos_token_id");
  gguf_remove_key(g(), "tokenizer.ggml.eos_token_id");
  gguf_set_val_str(g(), "tokenizer.ggml.model", "gpt2");  // its default is 11
  refuse("eos_token_id: token 11 of 4");
}

TEST_F(CheckTokenizer, KindsAndMissingKeys) {
  gguf_remove_key(g(), "tokenizer.ggml.tokens");
  refuse("tokenizer.ggml.tokens is missing or empty");
  gguf_set_val_str(g(), "tokenizer.ggml.model", "bert");
  refuse("tokenizer \"bert\"; known: gpt2, llama", ErrorCode::unsupported);
  gguf_remove_key(g(), "tokenizer.ggml.model");
  refuse("tokenizer.ggml.model is missing");
}

}  // namespace
}  // namespace pith::test
