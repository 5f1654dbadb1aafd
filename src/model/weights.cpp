#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "model/architectures.h"
#include "model/config.h"
#include "model/file_hash.h"
#include "model/gguf_file.h"
#include "model/weight_store.h"

namespace pith {
namespace {

constexpr ggml_type kMatrixTypes[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                      GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                      GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

std::string shape_text(std::span<const int64_t> sizes) {
  std::string text = "[" + std::to_string(sizes[0]);
  for (const int64_t size : sizes.subspan(1)) text += ", " + std::to_string(size);
  return text + "]";
}

class GgufWeights final : public ModelWeights {
 public:
  GgufWeights(GgufFile&& file, const ModelOptions& options)
      : file_(std::move(file)),
        config_(read_config(file_.header())),
        store_(file_, options),
        own_layout_(options.repack) {
    bind_layers();
    bind_ends();
    store_.load();
  }

  const ModelConfig& config() const override { return config_; }
  const LayerWeights& layer(int il) const override { return layers_[size_t(il)]; }
  ggml_tensor* token_embedding() const override { return token_embedding_; }
  ggml_tensor* output_norm() const override { return output_norm_; }
  ggml_tensor* output() const override { return output_; }
  const BlockMatrix* blocks(const ggml_tensor* tensor) const override;
  void read_rows(const std::string& tensor, int64_t first, int64_t count,
                 std::span<float> out) const override;
  std::string unembedding_name() const override { return unembedding_; }
  size_t bytes() const override { return store_.bytes(); }
  std::string storage() const override { return store_.summary(); }
  const std::string& path() const override { return file_.path(); }
  std::string hash() const override { return file_hash(file_); }

 private:
  void bind_layers();
  void bind_ends();
  const ggml_tensor* checked(const std::string& name, Extent columns, Extent rows) const;
  ggml_tensor* bind(const std::string& name, Extent columns, Extent rows, bool required);

  GgufFile file_;
  ModelConfig config_;
  WeightStore store_;
  bool own_layout_;
  mutable std::mutex mutex_;
  mutable std::map<const ggml_tensor*, BlockMatrix> blocks_;
  std::vector<LayerWeights> layers_;
  ggml_tensor *token_embedding_ = nullptr, *output_norm_ = nullptr, *output_ = nullptr;
  std::string unembedding_;
};

const BlockMatrix* GgufWeights::blocks(const ggml_tensor* tensor) const {
  if (!own_layout_ || !BlockMatrix::takes(*tensor) ||
      !ggml_backend_buffer_is_host(tensor->buffer)) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  const auto [found, made] = blocks_.try_emplace(tensor, *tensor);
  if (made) {
    file_.release({static_cast<const std::byte*>(tensor->data), ggml_nbytes(tensor)});
  }
  return &found->second;
}

// The stored tensor, or null where the file has none; its type and shape are as they must be.
const ggml_tensor* GgufWeights::checked(const std::string& name, Extent columns,
                                        Extent rows) const {
  const ggml_tensor* stored = file_.find(name);
  if (stored == nullptr) return nullptr;
  const int64_t wanted[GGML_MAX_DIMS] = {extent_size(config_, columns), extent_size(config_, rows),
                                         1, 1};
  if (!std::equal(wanted, wanted + GGML_MAX_DIMS, stored->ne)) {
    throw Error(ErrorCode::bad_file, "tensor " + name + " is " + shape_text(stored->ne) +
                                         ", expected " + shape_text(wanted));
  }
  const bool fits = rows == Extent::one
                        ? stored->type == GGML_TYPE_F32
                        : std::find(std::begin(kMatrixTypes), std::end(kMatrixTypes),
                                    stored->type) != std::end(kMatrixTypes);
  if (!fits) {
    throw Error(ErrorCode::unsupported, "tensor " + name + " has type " +
                                            ggml_type_name(stored->type) +
                                            ", which pith does not run there");
  }
  return stored;
}

ggml_tensor* GgufWeights::bind(const std::string& name, Extent columns, Extent rows,
                               bool required) {
  const ggml_tensor* stored = checked(name, columns, rows);
  if (stored != nullptr) {
    return store_.add(*stored, rows == Extent::one ? WeightUse::vector : WeightUse::product);
  }
  if (required) throw Error(ErrorCode::bad_file, "tensor " + name + " is missing");
  return nullptr;
}

void GgufWeights::bind_layers() {
  const Architecture& architecture = find_architecture(config_.architecture);
  ggml_tensor* rope_freqs = bind("rope_freqs.weight", Extent::rope_pairs, Extent::one, false);
  layers_.resize(size_t(config_.shape.n_layer));
  for (int il = 0; il < config_.shape.n_layer; ++il) {
    LayerWeights& weights = layers_[size_t(il)];
    weights.rope_freqs = rope_freqs;
    for (const LayerTensor& row : architecture.layer) {
      weights.*row.member =
          bind(layer_tensor_name(il, row.name), row.columns, row.rows, row.required);
    }
    for (const char* name : architecture.refused) {
      if (file_.find(layer_tensor_name(il, name)) == nullptr) continue;
      throw Error(ErrorCode::unsupported,
                  "tensor " + layer_tensor_name(il, name) + ", which pith does not run");
    }
  }
}

void GgufWeights::bind_ends() {
  const std::string embedding = "token_embd.weight", output = "output.weight";
  const ggml_tensor* stored = checked(embedding, Extent::embd, Extent::vocab);
  if (stored == nullptr) throw Error(ErrorCode::bad_file, "tensor " + embedding + " is missing");
  token_embedding_ = store_.add(*stored, WeightUse::rows);
  output_norm_ = bind("output_norm.weight", Extent::embd, Extent::one, true);
  unembedding_ = file_.find(output) != nullptr ? output : embedding;
  output_ = bind(unembedding_, Extent::embd, Extent::vocab, true);
}

void GgufWeights::read_rows(const std::string& tensor, int64_t first, int64_t count,
                            std::span<float> out) const {
  const ggml_tensor* stored = file_.find(tensor);
  if (stored == nullptr) throw Error(ErrorCode::internal, "no tensor " + tensor);
  const int64_t width = stored->ne[0];
  if (first < 0 || count < 0 || first > ggml_nrows(stored) - count ||
      out.size() != size_t(count * width)) {
    throw Error(ErrorCode::internal, "rows " + std::to_string(first) + " + " +
                                         std::to_string(count) + " of tensor " + tensor);
  }
  const std::byte* rows = file_.data(*stored).data() + size_t(first) * stored->nb[1];
  if (stored->type == GGML_TYPE_F32) {
    std::memcpy(out.data(), rows, out.size_bytes());
  } else {
    ggml_get_type_traits(stored->type)->to_float(rows, out.data(), count * width);
  }
}

}  // namespace

std::shared_ptr<const ModelWeights> ModelWeights::load(const std::string& path,
                                                       const ModelOptions& options) {
  GgufFile file(path);
  try {
    return std::make_shared<const GgufWeights>(std::move(file), options);
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::memory, path + ": no memory for the model's weights");
  }
}

}  // namespace pith
