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

  /// out[t * stride + r] for row r of a panel and `n_tokens` quantised rows from `tokens` on: the
  /// way for few tokens, which reads the panel once for every four.
  void multiply(int panel, const std::byte* tokens, int n_tokens, float* out, size_t stride) const;

 private:
  friend class WeightPanel;
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  const std::byte* block(int panel, int index) const;
  int wanted(int panel) const;  // rows that there are

  int depth_ = 0, rows_ = 0;
  std::vector<Line> lines_;  // by panel and block: nibbles of four numbers a row, scales, offsets
};

/// One panel unpacked to bytes, which is paid once for many tokens.
class WeightPanel {
 public:
  explicit WeightPanel(int most_depth);

  void unpack(const BlockMatrix& matrix, int panel);

  /// As BlockMatrix::multiply(), of the panel that was unpacked last.
  void multiply(const std::byte* tokens, int n_tokens, float* out, size_t stride) const;

 private:
  int depth_ = 0, wanted_ = 0;
  std::vector<int32_t> bytes_;         // [depth / 4, rows]: four numbers of one row
  std::vector<float> scale_, offset_;  // [depth / 32, rows]
};

}  // namespace pith
