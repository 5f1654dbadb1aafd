#include "support/dequantized_model.h"

#include <ggml-cpp.h>
#include <gguf.h>

#include <cstring>
#include <stdexcept>

namespace pith::test {

DequantizedModel::DequantizedModel(const std::string& path) {
  ggml_context* loaded = nullptr;
  const gguf_context_ptr source(
      gguf_init_from_file(path.c_str(), {.no_alloc = false, .ctx = &loaded}));
  const ggml_context_ptr weights(loaded);
  if (!source) throw std::runtime_error("cannot read " + path);

  size_t bytes = 0;
  for (auto* t = ggml_get_first_tensor(loaded); t; t = ggml_get_next_tensor(loaded, t)) {
    bytes += ggml_tensor_overhead() + size_t(ggml_nelements(t)) * sizeof(float) + 64;
  }
  const ggml_context_ptr plain(ggml_init({bytes, nullptr, false}));
  const gguf_context_ptr target(gguf_init_empty());
  gguf_set_kv(target.get(), source.get());
  for (int64_t i = 0; i < gguf_get_n_tensors(source.get()); ++i) {
    const ggml_tensor* from = ggml_get_tensor(loaded, gguf_get_tensor_name(source.get(), i));
    ggml_tensor* to = ggml_new_tensor(plain.get(), GGML_TYPE_F32, ggml_n_dims(from), from->ne);
    ggml_set_name(to, from->name);
    if (from->type == GGML_TYPE_F32) {
      std::memcpy(to->data, from->data, ggml_nbytes(from));
    } else {
      ggml_get_type_traits(from->type)
          ->to_float(from->data, ggml_get_data_f32(to), ggml_nelements(from));
    }
    gguf_add_tensor(target.get(), to);
  }
  if (!gguf_write_to_file(target.get(), file_.path().c_str(), false)) {
    throw std::runtime_error("cannot write " + file_.path());
  }
}

}  // namespace pith::test
