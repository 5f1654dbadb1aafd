#include <gtest/gtest.h>

#include <cstring>

#include "model/gguf_file.h"
#include "model/weights.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr ggml_type kTypes[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

/// Sizes that are whole blocks of every type and that ggml's faster layouts take.
TinyModelOptions wide(ggml_type type) {
  return {.head_dim = 64, .n_embd = 256, .n_ff = 256, .type = type};
}

auto load(const TinyModel& tiny, const ModelOptions& options = {}) {
  return ModelWeights::load(tiny.path(), options);
}

std::vector<float> dequantized(const GgufFile& file, const std::string& name) {
  const ggml_tensor* tensor = file.find(name);
  std::vector<float> values(size_t(ggml_nelements(tensor)));
  const auto data = file.data(*tensor);
  if (tensor->type == GGML_TYPE_F32) {
    std::memcpy(values.data(), data.data(), data.size());
  } else {
    ggml_get_type_traits(tensor->type)
        ->to_float(data.data(), values.data(), ggml_nelements(tensor));
  }
  return values;
}

void refuse(const TinyModelOptions& options, const std::string& part,
            ErrorCode code = ErrorCode::bad_file) {
  const TinyModel tiny(options);
  expect_error(code, part, [&] { load(tiny); });
}

TEST(Weights, ConfigurationAndShapes) {
  const TinyModel tiny({.n_layer = 3, .n_head = 6, .n_head_kv = 2, .biases = true});
  const auto weights = load(tiny);
  const ModelConfig& config = weights->config();
  EXPECT_EQ(config.shape.n_layer, 3);
  EXPECT_EQ(config.shape.group(), 3);
  EXPECT_EQ(config.n_ff, 96);
  EXPECT_EQ(config.n_ctx_train, 4096);
  const LayerWeights& last = weights->layer(2);
  EXPECT_EQ(last.wq->ne[0], 64);
  EXPECT_EQ(last.wq->ne[1], 96);
  EXPECT_EQ(last.wk->ne[1], 32);
  EXPECT_EQ(last.wo->ne[0], 96);
  EXPECT_EQ(last.down->ne[0], 96);
  EXPECT_EQ(last.bv->ne[0], 32);
  EXPECT_EQ(weights->token_embedding()->ne[1], 64);
  EXPECT_EQ(weights->path(), tiny.path());
  EXPECT_GT(weights->bytes(), 0U);
}

TEST(Weights, OptionalTensorsAreNullWhereTheFileHasNone) {
  const auto plain = load(TinyModel());
  EXPECT_EQ(plain->layer(0).bq, nullptr);
  EXPECT_EQ(plain->layer(0).rope_freqs, nullptr);
  const auto factors = load(TinyModel({.rope_freqs = true}));
  EXPECT_NE(factors->layer(0).rope_freqs, nullptr);
  EXPECT_EQ(factors->layer(0).rope_freqs, factors->layer(1).rope_freqs);
}

TEST(Weights, TiedAndUntied) {
  for (const bool tied : {false, true}) {
    const auto weights = load(TinyModel({.tied = tied}));
    EXPECT_EQ(weights->unembedding_name(), tied ? "token_embd.weight" : "output.weight");
    EXPECT_EQ(weights->output() == weights->token_embedding(), tied);
  }
}

/// Where a faster layout takes the unembedding, rows still come from the file as stored.
TEST(Weights, ATiedUnembeddingIsRepackedApart) {
  TinyModelOptions options = wide(GGML_TYPE_Q4_0);
  options.tied = true;
  const TinyModel tiny(options);
  const auto plain = load(tiny, {.repack = false});
  EXPECT_EQ(plain->output(), plain->token_embedding());
  const auto weights = load(tiny);
  const auto layout = [](const ggml_tensor* tensor) {
    return ggml_backend_buffer_get_type(tensor->buffer);
  };
  EXPECT_EQ(layout(weights->token_embedding()), layout(plain->output()));
  EXPECT_EQ(layout(weights->output()), layout(weights->layer(0).wq));
  EXPECT_EQ(weights->output() == weights->token_embedding(),
            layout(weights->output()) == layout(plain->output()));
}

TEST(Weights, RowsAreGgmlsOwnForEveryType) {
  for (const ggml_type type : kTypes) {
    SCOPED_TRACE(ggml_type_name(type));
    const TinyModel tiny(wide(type));
    const auto weights = load(tiny);
    const GgufFile file(tiny.path());
    for (const char* name : {"token_embd.weight", "blk.1.ffn_down.weight", "output_norm.weight"}) {
      const auto expected = dequantized(file, name);
      const int64_t width = file.find(name)->ne[0];
      const int64_t rows = int64_t(expected.size()) / width;
      std::vector<float> all(expected.size());
      weights->read_rows(name, 0, rows, all);
      EXPECT_EQ(all, expected);
      std::vector<float> last(static_cast<size_t>(width));
      weights->read_rows(name, rows - 1, 1, last);
      EXPECT_TRUE(std::equal(last.begin(), last.end(), expected.end() - width));
    }
  }
}

TEST(Weights, RowsOutsideATensorAreRefused) {
  const TinyModel tiny;
  const auto weights = load(tiny);
  std::vector<float> out(64);
  const auto read = [&](const char* name, int64_t first, int64_t count) {
    return [&weights, &out, name, first, count] { weights->read_rows(name, first, count, out); };
  };
  expect_error(ErrorCode::internal, "no tensor", read("absent", 0, 1));
  expect_error(ErrorCode::internal, "rows 64 + 1", read("token_embd.weight", 64, 1));
  expect_error(ErrorCode::internal, "rows -1 + 1", read("token_embd.weight", -1, 1));
  expect_error(ErrorCode::internal, "rows 0 + 2", read("token_embd.weight", 0, 2));
}

TEST(Weights, DequantizedWeightsHoldTheStoredValues) {
  for (const ggml_type type : kTypes) {
    SCOPED_TRACE(ggml_type_name(type));
    const TinyModel tiny(wide(type));
    const auto weights = load(tiny, {.dequantize_weights = true});
    const GgufFile file(tiny.path());
    const ggml_tensor* tensor = weights->layer(1).wq;
    ASSERT_EQ(tensor->type, GGML_TYPE_F32);
    const auto expected = dequantized(file, "blk.1.attn_q.weight");
    EXPECT_EQ(std::memcmp(tensor->data, expected.data(), ggml_nbytes(tensor)), 0);
  }
}

TEST(Weights, StorageSaysTypesAndPlaces) {
  EXPECT_EQ(load(TinyModel())->storage(), "F32 x 21 mapped");
  const TinyModel half(wide(GGML_TYPE_BF16));
  EXPECT_EQ(load(half, {.dequantize_weights = true})->storage(),
            "F32 x 16 dequantized, F32 x 5 mapped");
  EXPECT_EQ(load(half, {.repack = false})->storage(), "BF16 x 16 mapped, F32 x 5 mapped");
}

TEST(Weights, ExtraTensorsAreTolerated) {
  const TinyModel tiny({.biases = true, .edit_tensor = [](TinyTensor& tensor) {
                          if (tensor.name == "blk.1.attn_q.bias") tensor.name = "something.else";
                          return true;
                        }});
  EXPECT_EQ(load(tiny)->layer(1).bq, nullptr);
}

TEST(Weights, MissingTensorsAreNamed) {
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight",
                           "blk.1.ffn_down.weight", "blk.1.ffn_norm.weight"}) {
    refuse({.edit_tensor = [name](TinyTensor& tensor) { return tensor.name != name; }},
           std::string("tensor ") + name + " is missing");
  }
}

TEST(Weights, WrongShapesAreNamed) {
  const auto reshaped = [](const char* name, std::vector<int64_t> shape) {
    return TinyModelOptions{
        .rope_freqs = true, .biases = true, .edit_tensor = [name, shape](TinyTensor& tensor) {
          if (tensor.name == name) tensor.shape = shape;
          return true;
        }};
  };
  refuse(reshaped("blk.1.attn_k.weight", {64, 64}),
         "tensor blk.1.attn_k.weight is [64, 64, 1, 1], expected [64, 32, 1, 1]");
  refuse(reshaped("token_embd.weight", {64, 63}), "tensor token_embd.weight is [64, 63");
  refuse(reshaped("output.weight", {32, 64}), "tensor output.weight is [32, 64");
  refuse(reshaped("blk.0.attn_norm.weight", {64, 2}), "tensor blk.0.attn_norm.weight");
  refuse(reshaped("blk.0.attn_q.bias", {32}), "tensor blk.0.attn_q.bias is [32");
  refuse(reshaped("blk.0.ffn_up.weight", {64, 96, 2}), "tensor blk.0.ffn_up.weight");
}

TEST(Weights, WrongTypesAreNamed) {
  const auto retyped = [](const char* name, ggml_type type) {
    return TinyModelOptions{.edit_tensor = [name, type](TinyTensor& tensor) {
      if (tensor.name == name) tensor.type = type;
      return true;
    }};
  };
  refuse(retyped("blk.0.attn_norm.weight", GGML_TYPE_F16),
         "tensor blk.0.attn_norm.weight has type f16", ErrorCode::unsupported);
  refuse(retyped("blk.0.ffn_up.weight", GGML_TYPE_Q5_0), "has type q5_0", ErrorCode::unsupported);
}

TEST(Weights, ABiasTheEngineDoesNotRunIsRefused) {
  refuse({.biases = true,
          .edit_tensor =
              [](TinyTensor& tensor) {
                if (tensor.name == "blk.1.attn_q.bias") tensor.name = "blk.1.ffn_down.bias";
                return true;
              }},
         "tensor blk.1.ffn_down.bias", ErrorCode::unsupported);
}

TEST(Weights, ErrorsNameTheFile) {
  expect_error(ErrorCode::io, "/no/such/model.gguf: No such file",
               [] { ModelWeights::load("/no/such/model.gguf", {}); });
  expect_error(ErrorCode::io, "not a regular file", [] { ModelWeights::load("/tmp", {}); });
  const TempFile empty, text("not a model");
  expect_error(ErrorCode::bad_file, empty.path() + ": empty file",
               [&] { ModelWeights::load(empty.path(), {}); });
  expect_error(ErrorCode::bad_file, text.path() + ": GGUF header, byte 0",
               [&] { ModelWeights::load(text.path(), {}); });
  const TinyModel foreign({.edit_keys = [](gguf_context* keys) {
    gguf_set_val_str(keys, "general.architecture", "gpt2");
  }});
  expect_error(ErrorCode::unsupported,
               foreign.path() + ": architecture \"gpt2\" is not supported; known: llama",
               [&] { load(foreign); });
}

TEST(Weights, AFileCutByAByteIsRefused) {
  const TinyModel tiny;
  const std::string whole = read_file(tiny.path());
  const TempFile cut(std::string_view(whole).substr(0, whole.size() - 1));
  expect_error(ErrorCode::bad_file, "shorter than its tensors",
               [&] { ModelWeights::load(cut.path(), {}); });
}

}  // namespace
}  // namespace pith::test
