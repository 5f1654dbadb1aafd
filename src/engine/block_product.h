#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct ggml_tensor;

/// Products of many tokens with a weight matrix in Q4_1, which ggml computes one token and one row
/// at a time: bytes times bytes, summed exactly in each block of 32, as wide as the processor.
/// Activations are rounded to a byte and a scale a block, as ggml does too.
namespace pith {

/// Whether multiply() takes this matrix and is worth it on this processor.
bool in_blocks(const ggml_tensor& weights);

/// Bytes of a row of `depth` numbers, a multiple of 32, as quantize_row() writes it.
size_t quantized_bytes(int depth);

/// Rounds a row of `depth` numbers: int8 [depth], then each block's scale and the sum of what
/// its numbers were rounded to, as floats.
void quantize_row(const float* from, int depth, std::byte* to);

/// Rows of a weight matrix, as many as the processor has lanes, laid out for multiply(): where one
/// after another are read, unpacking them is paid once for all tokens.
class WeightPanel {
 public:
  /// Rows a panel holds.
  static int rows();

  explicit WeightPanel(int most_depth);

  /// Takes rows from `first` on; those past the last are zero.
  void unpack(const ggml_tensor& weights, int first);

  /// out[t * stride + r] for the panel's first `wanted` rows and `n_tokens` quantised rows from
  /// `tokens` on.
  void multiply(const std::byte* tokens, int n_tokens, float* out, size_t stride, int wanted) const;

 private:
  int depth_ = 0;
  std::vector<int32_t> bytes_;         // [depth / 4, rows]: four numbers of one row
  std::vector<float> scale_, offset_;  // [depth / 32, rows]
};

}  // namespace pith
