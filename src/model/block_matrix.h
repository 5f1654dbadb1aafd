#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct ggml_tensor;

/// Products with weights in Q4_1, which ggml computes one token and one row at a time: bytes times
/// bytes, summed exactly in each block of 32, as wide as the processor. Activations are rounded to
/// a byte and a scale a block, as ggml does too.
namespace pith {

/// Bytes of a row of `depth` numbers, a multiple of 32, as quantize_row() writes it.
size_t quantized_bytes(int depth);

/// Rounds a row of `depth` numbers: int8 [depth], then each block's scale and the sum of what
/// its numbers were rounded to, as floats.
void quantize_row(const float* from, int depth, std::byte* to);

/// A weight matrix in Q4_1 whose rows lie side by side in panels of as many as the processor has
/// lanes, in the bytes that it had.
class BlockMatrix {
 public:
  /// Whether there is one of these weights, and it is worth it on this processor.
  static bool takes(const ggml_tensor& weights);

  /// Copies `weights`, which takes() has to say yes to.
  explicit BlockMatrix(const ggml_tensor& weights);

  /// Rows of a panel; the last one may have fewer.
  static int panel_rows();
  int depth() const { return depth_; }
  int rows() const { return rows_; }
  int panels() const { return (rows_ + panel_rows() - 1) / panel_rows(); }

  /// out[t * stride + r] for row r of a panel and `n_tokens` quantised rows from `tokens` on.
  void multiply(int panel, const std::byte* tokens, int n_tokens, float* out, size_t stride) const;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  const std::byte* block(int panel, int index) const;

  int depth_ = 0, rows_ = 0;
  std::vector<Line> lines_;  // by panel and block: nibbles of four numbers a row, scales, offsets
};

}  // namespace pith
