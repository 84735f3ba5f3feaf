// A matrix that files hold in blocks, those of GGUF or of bitsandbytes' layout. The latter has for `p.weight`:
//   nf4   p.weight u8 of the codes, p.weight.absmax, p.weight.quant_map, p.weight.quant_state.bitsandbytes__nf4 (JSON); with
//         nested scales absmax is u8, with p.weight.nested_absmax and p.weight.nested_quant_map
//   int8  p.weight i8 (rows, columns), p.SCB f32 (rows)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/weight_files.h"
#include "tensor/block_format.h"

namespace plimsoll {

class StoredBlocks {
 public:
  // Nothing if the tensor holds plain numbers. data_error E-FORMAT-QUANT if the tensors that belong to it do not fit.
  static std::optional<StoredBlocks> find(const WeightFiles& files, const WeightFiles::Found& weight);

  const BlockMatrix& matrix() const { return matrix_; }
  // The other tensors that belong to it.
  const std::vector<std::string>& others() const { return others_; }
  // Reads the scales, which are held from then on. Required before reading elements.
  void load_scales();
  // Elements [first, first + out.size()) as fp32.
  void read(std::int64_t first, std::span<float> out) const;
  // Bytes [begin, begin + out.size()) in the layout of a BlockMatrix.
  void read_stored(std::int64_t begin, std::span<std::byte> out) const;

 private:
  StoredBlocks(const WeightFiles& files, const WeightFiles::Found& weight) : files_(&files), weight_(weight) {}

  const GgufWeights* gguf() const { return files_->gguf(); }
  const SafetensorsFile& file(const WeightFiles::Found& found) const { return files_->files()[found.file]; }
  Error refuse(const std::string& tensor, const std::string& what, std::string expected) const;
  WeightFiles::Found need(const std::string& name, std::string_view stored_as, std::int64_t elements);
  std::vector<float> floats(const WeightFiles::Found& found) const;
  void find_int8();
  void find_nf4();
  void read_state(const WeightFiles::Found& found);

  const WeightFiles* files_;
  WeightFiles::Found weight_, of_scales_, of_nested_, of_map_;
  BlockMatrix matrix_;
  std::vector<std::string> others_;
  std::vector<std::byte> behind_;  // the bytes after the codes
  float offset_ = 0;
};

}  // namespace plimsoll
