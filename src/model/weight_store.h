#pragma once

#include <ggml-cpp.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf_file.h"
#include "pith/pith.hpp"

namespace pith {

/// How a graph uses a weight; decides which layouts it may have.
enum class WeightUse { rows, product, vector };

/// Places the tensors of a GGUF file where the CPU backend reads them: mapped as stored, repacked
/// in one of ggml's faster layouts for products, or dequantised to F32. First add() every tensor,
/// then load() once.
class WeightStore {
 public:
  WeightStore(const GgufFile& file, const ModelOptions& options);

  /// A tensor for the graph, without data until load(). A tensor added twice for uses that end up
  /// with the same layout is held once.
  ggml_tensor* add(const ggml_tensor& stored, WeightUse use);

  /// Throws Error(memory).
  void load();

  size_t bytes() const { return bytes_; }
  /// "Q4_1 x 210 in AMX, F32 x 61 mapped"
  std::string summary() const;

 private:
  struct Placed {
    const ggml_tensor* stored;
    ggml_tensor* tensor;
  };
  /// Tensors that share a buffer type; null is the mapping.
  struct Pool {
    ggml_context_ptr context;
    ggml_backend_buffer_ptr buffer;
    std::vector<Placed> tensors;
  };

  ggml_backend_buffer_type_t choose(const ggml_tensor& stored, WeightUse use) const;
  std::string place(ggml_backend_buffer_type_t type) const;
  bool dequantized(const ggml_tensor& stored) const;
  void map(Pool& pool);
  void copy(Pool& pool, ggml_backend_buffer_type_t type);

  const GgufFile& file_;
  ModelOptions options_;
  ggml_backend_dev_t device_;
  std::vector<ggml_backend_buffer_type_t> repacked_types_;
  std::map<ggml_backend_buffer_type_t, Pool> pools_;
  size_t bytes_ = 0;
};

}  // namespace pith
