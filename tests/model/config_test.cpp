#include "model/config.h"

#include <ggml-cpp.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace pith::test {
namespace {

/// Key-values of a small llama model, in memory.
class Config : public testing::Test {
 protected:
  void SetUp() override {
    gguf_set_val_str(g(), "general.architecture", "llama");
    number("vocab_size", 100);
    number("context_length", 2048);
    number("embedding_length", 96);
    number("block_count", 3);
    number("feed_forward_length", 256);
    number("attention.head_count", 6);
    real("attention.layer_norm_rms_epsilon", 1e-5F);
  }

  gguf_context* g() { return header_.get(); }
  void number(const std::string& key, uint32_t value) {
    gguf_set_val_u32(g(), ("llama." + key).c_str(), value);
  }
  void real(const std::string& key, float value) {
    gguf_set_val_f32(g(), ("llama." + key).c_str(), value);
  }
  void array(const std::string& key, const std::vector<int32_t>& values) {
    gguf_set_arr_data(g(), ("llama." + key).c_str(), GGUF_TYPE_INT32, values.data(), values.size());
  }
  void text(const std::string& key, const char* value) {
    gguf_set_val_str(g(), ("llama." + key).c_str(), value);
  }
  ModelConfig read() { return read_config(g()); }
  void refuse(const std::string& part, ErrorCode code = ErrorCode::bad_file) {
    expect_error(code, part, [&] { read(); });
  }

  gguf_context_ptr header_{gguf_init_empty()};
};

TEST_F(Config, DefaultsOfWhatIsNotWritten) {
  const ModelConfig config = read();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.shape.n_layer, 3);
  EXPECT_EQ(config.shape.n_head_kv, 6);
  EXPECT_EQ(config.shape.head_dim, 16);
  EXPECT_EQ(config.shape.n_vocab, 100);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.25F);
  EXPECT_EQ(config.rope.n_dims, 16);
  EXPECT_EQ(config.rope.n_ctx_orig, 2048);
  EXPECT_FLOAT_EQ(config.rope.freq_base, 10000);
  EXPECT_FLOAT_EQ(config.rope.freq_scale, 1);
  EXPECT_FLOAT_EQ(config.rope.ext_factor, 0);
}

TEST_F(Config, ValuesThatAreWritten) {
  number("attention.head_count_kv", 2);
  number("attention.key_length", 32);
  number("attention.value_length", 32);
  real("attention.scale", 0.1F);
  real("rope.freq_base", 500000);
  gguf_set_val_str(g(), "general.name", "a name");
  const ModelConfig config = read();
  EXPECT_EQ(config.name, "a name");
  EXPECT_EQ(config.shape.group(), 3);
  EXPECT_EQ(config.shape.head_dim, 32);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.1F);
  EXPECT_FLOAT_EQ(config.rope.freq_base, 500000);
}

TEST_F(Config, TheTokensCountWhereThereAreAny) {
  const char* tokens[] = {"a", "b", "c"};
  gguf_set_arr_str(g(), "tokenizer.ggml.tokens", tokens, 3);
  EXPECT_EQ(read().shape.n_vocab, 3);
}

TEST_F(Config, HeadCountsByLayerMustAgree) {
  array("attention.head_count", {6, 6, 6});
  array("attention.head_count_kv", {2, 2, 2});
  EXPECT_EQ(read().shape.n_head_kv, 2);
  array("attention.head_count_kv", {2, 3, 2});
  refuse("differs from layer to layer", ErrorCode::unsupported);
}

TEST_F(Config, LinearScaling) {
  real("rope.scaling.factor", 4);
  EXPECT_FLOAT_EQ(read().rope.freq_scale, 0.25F);
  EXPECT_FLOAT_EQ(read().rope.ext_factor, 0);
  text("rope.scaling.type", "none");
  EXPECT_FLOAT_EQ(read().rope.freq_scale, 1);
}

TEST_F(Config, OldNameOfTheLinearFactor) {
  real("rope.scale_linear", 2);
  EXPECT_FLOAT_EQ(read().rope.freq_scale, 0.5F);
}

TEST_F(Config, YarnLeavesAttentionsFactorToGgml) {
  text("rope.scaling.type", "yarn");
  real("rope.scaling.factor", 8);
  number("rope.scaling.original_context_length", 512);
  const RopeConfig rope = read().rope;
  EXPECT_FLOAT_EQ(rope.freq_scale, 0.125F);
  EXPECT_FLOAT_EQ(rope.ext_factor, 1);
  EXPECT_FLOAT_EQ(rope.attn_factor, 1);
  EXPECT_EQ(rope.n_ctx_orig, 512);
  real("rope.scaling.factor", 0.5F);
  EXPECT_FLOAT_EQ(read().rope.attn_factor, 1 / (1 + 0.1F * std::log(0.5F)));
}

TEST_F(Config, WhatItDoesNotRun) {
  gguf_set_val_str(g(), "general.architecture", "mamba");
  refuse("architecture \"mamba\" is not supported; known: llama", ErrorCode::unsupported);
  gguf_set_val_str(g(), "general.architecture", "llama");
  text("rope.scaling.type", "longrope");
  refuse("RoPE scaling \"longrope\"", ErrorCode::unsupported);
  text("rope.scaling.type", "linear");
  number("attention.value_length", 8);
  refuse("keys and values of different sizes", ErrorCode::unsupported);
  number("attention.value_length", 16);
  number("expert_count", 8);
  refuse("mixture of experts", ErrorCode::unsupported);
  number("expert_count", 0);
  gguf_set_val_u16(g(), "split.count", 2);
  refuse("split model", ErrorCode::unsupported);
}

TEST_F(Config, SenselessSizes) {
  for (const char* key : {"block_count", "embedding_length", "attention.head_count", "vocab_size",
                          "feed_forward_length", "context_length"}) {
    for (const uint32_t bad : {0U, 0xFFFFFFFFU}) {
      SetUp();
      number(key, bad);
      refuse(std::string("llama.") + key + " is ");
    }
  }
  SetUp();
  number("attention.head_count_kv", 4);
  refuse("do not share 4 KV heads evenly");
}

TEST_F(Config, SenselessNumbers) {
  real("attention.layer_norm_rms_epsilon", NAN);
  refuse("out of range");
  real("attention.layer_norm_rms_epsilon", 1e-5F);
  real("rope.freq_base", -1);
  refuse("llama.rope.freq_base");
  real("rope.freq_base", 10000);
  number("rope.dimension_count", 15);
  refuse("odd rope.dimension_count");
  number("rope.dimension_count", 18);
  refuse("not from 1 to 16");
}

TEST_F(Config, MissingOrMistypedKeys) {
  gguf_remove_key(g(), "llama.block_count");
  refuse("key llama.block_count is missing");
  text("block_count", "three");
  refuse("key llama.block_count is not an integer");
  number("block_count", 3);
  number("attention.layer_norm_rms_epsilon", 1);
  refuse("is not a floating-point number");
  gguf_remove_key(g(), "general.architecture");
  refuse("key general.architecture is missing");
  gguf_set_val_u32(g(), "general.architecture", 1);
  refuse("key general.architecture is not a string");
}

}  // namespace
}  // namespace pith::test
