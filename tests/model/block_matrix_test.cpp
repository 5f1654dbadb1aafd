#include "model/block_matrix.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "engine/linear_ops.h"

namespace pith::test {
namespace {

constexpr int kBlock = 32;

std::vector<float> normals(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// A random matrix of rows of `depth` numbers in Q4_1, and what it holds.
struct Weights {
  Weights(int depth, int rows) : context(ggml_init({size_t{64} << 20, nullptr, false})) {
    tensor = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q4_1, depth, rows);
    const auto numbers = normals(size_t(depth) * size_t(rows), 1);
    ggml_quantize_chunk(GGML_TYPE_Q4_1, numbers.data(), tensor->data, 0, rows, depth, nullptr);
    values.resize(numbers.size());
    ggml_get_type_traits(GGML_TYPE_Q4_1)
        ->to_float(tensor->data, values.data(), int64_t(values.size()));
  }

  ggml_context_ptr context;
  ggml_tensor* tensor = nullptr;
  std::vector<float> values;
};

/// What quantize_row() stands for.
std::vector<float> read_back(const std::byte* row, int depth) {
  std::vector<float> out(static_cast<size_t>(depth));
  for (int i = 0; i < depth; ++i) {
    float scale;
    std::memcpy(&scale, row + depth + size_t(i / kBlock) * sizeof scale, sizeof scale);
    out[size_t(i)] = scale * float(int8_t(row[i]));
  }
  return out;
}

TEST(QuantizeRow, RoundsToTheNearestOf255StepsOfEachBlock) {
  constexpr int kDepth = 128;
  auto row = normals(kDepth, 2);
  std::fill(row.begin(), row.begin() + kBlock, 0.0F);
  row[kBlock] = 1e6F;
  row[2 * kBlock] = -0.0F;
  std::vector<std::byte> bytes(quantized_bytes(kDepth));
  quantize_row(row.data(), kDepth, bytes.data());
  const auto back = read_back(bytes.data(), kDepth);
  for (int b = 0; b < kDepth / kBlock; ++b) {
    float largest = 0, sum = 0;
    for (int i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      largest = std::max(largest, std::abs(row[size_t(i)]));
      sum += back[size_t(i)];
    }
    for (int i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      EXPECT_LE(std::abs(back[size_t(i)] - row[size_t(i)]), largest / 127 * 0.5001F) << i;
    }
    float written;
    std::memcpy(&written, bytes.data() + kDepth + size_t(kDepth / kBlock + b) * sizeof written,
                sizeof written);
    EXPECT_NEAR(written, sum, 1e-5 * largest * kBlock) << b;
  }
  EXPECT_EQ(back[0], 0);
}

/// Blocks too small to divide by are zero; what is no number does not leave its block.
TEST(QuantizeRow, OddNumbersStayInTheirBlock) {
  auto row = normals(96, 4);
  std::fill(row.begin(), row.begin() + kBlock, 1e-42F);
  row[kBlock + 3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> bytes(quantized_bytes(96));
  quantize_row(row.data(), 96, bytes.data());
  const auto back = read_back(bytes.data(), 96);
  for (int i = 0; i < kBlock; ++i) EXPECT_EQ(back[size_t(i)], 0) << i;
  for (int i = 2 * kBlock; i < 96; ++i) EXPECT_NEAR(back[size_t(i)], row[size_t(i)], 0.02F) << i;
}

/// Against the sum, in double, of what weights and rounded activations stand for.
TEST(BlockMatrix, MultipliesWhatItsOperandsStandFor) {
  for (const int depth : {32, 96, 576}) {
    const int rows = BlockMatrix::panel_rows() + 5;  // the second panel is not full
    const Weights w(depth, rows);
    const BlockMatrix matrix(*w.tensor);
    for (const int n_tokens : {1, 2, 3, 4, 5, 11, 12, 13, 40}) {
      const auto x = normals(size_t(depth) * size_t(n_tokens), unsigned(n_tokens));
      const size_t pitch = quantized_bytes(depth);
      std::vector<std::byte> tokens(pitch * size_t(n_tokens));
      for (int t = 0; t < n_tokens; ++t) {
        quantize_row(x.data() + t * depth, depth, tokens.data() + size_t(t) * pitch);
      }
      const size_t stride = size_t(rows) + 3;
      std::vector<float> out(stride * size_t(n_tokens), 7);
      for (int panel = 0; panel < matrix.panels(); ++panel) {
        matrix.multiply(panel, tokens.data(), n_tokens,
                        out.data() + panel * BlockMatrix::panel_rows(), stride);
      }
      for (int t = 0; t < n_tokens; ++t) {
        const auto rounded = read_back(tokens.data() + size_t(t) * pitch, depth);
        for (int r = 0; r < rows; ++r) {
          double sum = 0, size = 0;
          for (int i = 0; i < depth; ++i) {
            const double term = double(rounded[size_t(i)]) *
                                double(w.values[size_t(r) * size_t(depth) + size_t(i)]);
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(out[size_t(t) * stride + size_t(r)], sum, 2e-6 * size) << depth << " " << t;
        }
        for (size_t i = size_t(rows); i < stride; ++i) EXPECT_EQ(out[size_t(t) * stride + i], 7);
      }
    }
  }
}

struct Product {
  std::vector<float> values;
  ggml_op op;
};

/// Two products of the same activations, as a layer has them, the second one's result.
Product product(const Weights& w, int n_tokens, int threads, bool own) {
  const BlockMatrix matrix(*w.tensor);
  LinearOps::Blocks blocks;
  if (own) blocks = [&](const ggml_tensor*) { return &matrix; };
  LinearOps ops(blocks);
  const ggml_context_ptr context(ggml_init({size_t{64} << 20, nullptr, false}));
  ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, w.tensor->ne[0], n_tokens);
  const auto numbers = normals(size_t(ggml_nelements(x)), 3);
  std::memcpy(x->data, numbers.data(), ggml_nbytes(x));
  ops.begin();
  ggml_tensor* first = ops.build(context.get(), w.tensor, x);
  ggml_tensor* second = ops.build(context.get(), w.tensor, x);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, first);
  ggml_build_forward_expand(graph, second);
  ggml_graph_compute_with_ctx(context.get(), graph, threads);
  const auto* data = static_cast<const float*>(second->data);
  return {{data, data + ggml_nelements(second)}, second->op};
}

TEST(LinearOps, AgreeWithGgmlWhateverTheThreads) {
  const Weights w(96, 200);
  for (const int n_tokens : {1, 3, 8, 9, 50, 333}) {
    const Product expected = product(w, n_tokens, 2, false), one = product(w, n_tokens, 1, true);
    EXPECT_EQ(expected.op, GGML_OP_MUL_MAT);
    EXPECT_EQ(one.op, GGML_OP_CUSTOM);
    double error = 0, size = 0;
    for (size_t i = 0; i < one.values.size(); ++i) {
      error += std::pow(one.values[i] - expected.values[i], 2);
      size += std::pow(expected.values[i], 2);
    }
    EXPECT_LT(error, 1e-5 * size) << n_tokens;  // ggml keeps scales in half precision
    for (const int threads : {2, 3, 5}) {
      EXPECT_EQ(product(w, n_tokens, threads, true).values, one.values) << threads;
    }
  }
}

TEST(BlockMatrix, LeavesOtherWeightsToGgml) {
  const ggml_context_ptr context(ggml_init({size_t{1} << 20, nullptr, false}));
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0}) {
    const ggml_tensor* w = ggml_new_tensor_2d(context.get(), type, 64, 30);
    EXPECT_FALSE(BlockMatrix::takes(*w)) << ggml_type_name(type);
  }
}

}  // namespace
}  // namespace pith::test
