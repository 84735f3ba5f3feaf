#include "weights/merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/peft_folder.h"
#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "formats/atomic_file.h"
#include "formats/atomic_folder.h"
#include "formats/bounded_json.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/finite.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "models/family.h"
#include "models/gguf.h"
#include "ops/adapter/kernels.h"
#include "tensor/half.h"
#include "weights/adapter_weights.h"
#include "weights/block_stream.h"
#include "weights/companions.h"
#include "weights/model_source.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 1 << 18;  // of a tensor in memory at a time; a multiple of a tile of the norms
constexpr const char* kHead = "lm_head.weight";

// All numbers of an existing tensor; model_source has checked it.
std::vector<float> all_of(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = *file.find(name);
  std::vector<float> numbers(static_cast<std::size_t>(tensor.shape.elements()));
  std::array<std::byte, 1 << 12> staging;
  file.read_f32(tensor, 0, numbers, staging);
  return numbers;
}

ReadElements elements_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  return [&](std::int64_t first, std::span<float> out) {
    std::array<std::byte, 1 << 16> staging;
    file.read_f32(tensor, first, out, staging);
  };
}

// Calls f(first, numbers) for all elements in fp32, some at a time; f may change them.
template <class F>
void for_elements(std::int64_t all, const ReadElements& read, F f) {
  std::vector<float> numbers(static_cast<std::size_t>(std::min(all, kElements)));
  for (std::int64_t first = 0; first < all; first += kElements) {
    const std::span<float> some = std::span(numbers).first(static_cast<std::size_t>(std::min(kElements, all - first)));
    read(first, some);
    f(first, some);
  }
}

// True if the name is that of a file of weights, of this model or, by its ending, of another program. Such files hold numbers of
// the base, which do not belong in the merged folder.
bool holds_weights(const std::string& name) {
  constexpr std::array<std::string_view, 9> kEndings = {".safetensors", ".bin",  ".pt",      ".pth", ".ckpt",
                                                        ".h5",          ".onnx", ".msgpack", ".gguf"};
  return name == kWeightsIndex || name.ends_with(".bin.index.json") ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// The numbers of a matrix after rounding to blocks. They are read in order, all of them each time; only the scales are held.
class InBlocks {
 public:
  InBlocks(const BlockMatrix& matrix, ReadElements read) : matrix_(matrix), read_(std::move(read)) {
    BlockStream stream(matrix, read_);
    std::vector<std::byte> codes;
    for (std::int64_t left = code_bytes(matrix).n; left > 0; left -= std::ssize(codes)) {
      codes.resize(static_cast<std::size_t>(std::min(left, kElements)));
      stream.next(codes);
    }
    behind_.resize(static_cast<std::size_t>((stored_bytes(matrix) - code_bytes(matrix)).n));
    stream.next(behind_);
  }

  void next(std::int64_t first, std::span<float> out) {
    if (first == 0) stream_.emplace(matrix_, read_);
    codes_.resize(static_cast<std::size_t>(code_bytes({matrix_.format, 1, std::ssize(out)}).n));
    stream_->next(codes_);
    decode_blocks(matrix_, {codes_.data(), first, behind_.data()}, first, out);
  }

 private:
  BlockMatrix matrix_;
  ReadElements read_;
  std::optional<BlockStream> stream_;
  std::vector<std::byte> codes_, behind_;
};

// The change of one matrix by the adapter.
class LayerChange {
 public:
  LayerChange(const SafetensorsFile& adapter, const std::string& module, const LinearOperands& linear, const Shape& weight,
              const AdapterSettings& settings)
      : a_(all_of(adapter, module + ".lora_A.weight")), b_(all_of(adapter, module + ".lora_B.weight")) {
    const std::string in_modules = module.substr(kAdapterPrefix.size());
    norms_ = {weight[linear.inputs_first ? 1 : 0],
              weight[linear.inputs_first ? 0 : 1],
              settings.rank_of(in_modules),
              settings.scale_of(in_modules),
              linear.inputs_first,
              {},
              a_.data(),
              b_.data()};
    if (settings.kind == AdapterKind::dora) factors_ = all_of(adapter, module + ".lora_magnitude_vector");
  }

  // For DoRA: turns the magnitudes into the factors of the rows.
  void find_factors(const ReadElements& weight) {
    if (factors_.empty()) return;
    std::vector<std::byte> scratch(static_cast<std::size_t>(norms_.scratch(/*in_parts=*/false).n));
    norms_.begin(scratch.data());
    for_elements(norms_.rows * norms_.columns, weight, [&](std::int64_t first, std::span<const float> numbers) {
      norms_.add_part(0, first * std::int64_t{sizeof(float)}, std::as_bytes(numbers), scratch.data());
    });
    std::vector<float> rows(factors_.size());
    norms_.end(scratch.data(), rows.data());
    for (std::size_t i = 0; i < rows.size(); ++i) factors_[i] /= rows[i];
  }

  // Changes elements of the matrix from `first` on, in stored order.
  void apply(std::int64_t first, std::span<float> numbers) const {
    const std::int64_t width = norms_.inputs_first ? norms_.rows : norms_.columns, last = first + std::ssize(numbers);
    cpu::parallel_for(ceil_div(last, width) - first / width, [&](std::int64_t i) {
      const std::int64_t line = first / width + i;
      const std::int64_t from = std::max(first, line * width), to = std::min(last, (line + 1) * width);
      float* const part = numbers.data() + (from - first);
      norms_.inputs_first ? change_line(line, from - line * width, to - from, part)
                          : change_row(line, from - line * width, to - from, part);
    });
  }

 private:
  float factor(std::int64_t row) const { return factors_.empty() ? 1.0F : factors_[static_cast<std::size_t>(row)]; }

  // Changes columns from `column` on of a row of [rows, columns].
  void change_row(std::int64_t row, std::int64_t column, std::int64_t count, float* numbers) const {
    for (std::int64_t k = 0; k < norms_.rank; ++k) {
      const auto b = static_cast<float>(norms_.scale * static_cast<double>(norms_.b[row * norms_.rank + k]));
      const float* a = norms_.a + k * norms_.columns + column;
      for (std::int64_t i = 0; i < count; ++i) numbers[i] += b * a[i];
    }
    const float by = factor(row);
    if (by != 1) std::transform(numbers, numbers + count, numbers, [by](float x) { return x * by; });
  }

  // Changes rows from `row` on of a line of [columns, rows].
  void change_line(std::int64_t column, std::int64_t row, std::int64_t count, float* numbers) const {
    for (std::int64_t i = 0; i < count; ++i) {
      double change = 0;
      for (std::int64_t k = 0; k < norms_.rank; ++k) {
        change += static_cast<double>(norms_.b[(row + i) * norms_.rank + k]) *
                  static_cast<double>(norms_.a[k * norms_.columns + column]);
      }
      numbers[i] = (numbers[i] + static_cast<float>(norms_.scale * change)) * factor(row + i);
    }
  }

  std::vector<float> a_, b_, factors_;
  cpu::RowNorms norms_{};
};

// E-EXPORT-RANGE for a number outside the type's range.
void append(SafetensorsWriter& writer, const std::string& name, std::span<const float> numbers, DType type) {
  std::vector<std::byte> bytes(numbers.size() * static_cast<std::size_t>(size_of(type)));
  narrow(type, numbers, bytes.data());
  if (const auto bad = first_not_finite(type, bytes)) {
    throw config_error("E-EXPORT-RANGE", "type",
                       fmt::format("{} would hold {:g}, which is beyond the numbers of {}", name,
                                   numbers[static_cast<std::size_t>(*bad)], plimsoll::name(type)),
                       "a type that holds the sums", {Change("command.type", "fp32")});
  }
  writer.append(name, bytes);
}

bool is_number(const StoredTensor& tensor) {
  return tensor.dtype && (*tensor.dtype == DType::f32 || *tensor.dtype == DType::bf16 || *tensor.dtype == DType::f16);
}

class Merge {
 public:
  explicit Merge(const MergeRequest& request)
      : request_(request),
        source_(find_model(request.base.string(), request.adapter.string(), TiedTables::apart)),
        adapter_(open_adapter(source_.adapter.init)),
        model_(source_.model),
        graph_(model_.family().build(model_, smallest_shape(), {}).graph),
        files_(weights_of_model(source_.folder)) {
    check_out();
    find_sources();
    for (const std::string& format : blocks_) result_.blocks += (result_.blocks.empty() ? "" : ", ") + format;
  }

  MergeResult run() {
    std::error_code error;
    fs::create_directories(fs::absolute(request_.out, error).parent_path(), error);
    AtomicFolder aside(request_.out);
    const std::vector<std::string> names = files_.gguf() == nullptr ? files_.names() : std::vector<std::string>{kWeightsFile};
    take_over(aside, names);
    result_.companions = take_companions(source_, aside.path());
    std::vector<WeightsFile> written;
    for (std::size_t i = 0; i < names.size(); ++i) {
      written.push_back({names[i], write_file(i, aside.path() / names[i]), {}});
    }
    if (files_.has_index()) write_file_atomically(aside.path() / kWeightsIndex, index_text_of(written));
    write_new_config(aside.path());
    write_record(aside.path());
    aside.commit();
    return result_;
  }

 private:
  // The treatment of a tensor of the base, by its stored name.
  struct Source {
    std::optional<std::pair<std::string, LinearOperands>> layer;  // changed by this module of the adapter
    const StoredTensor* whole = nullptr;                          // replaced by this tensor of the adapter
    std::optional<StoredBlocks> blocks;                           // its storage in blocks, if any
    bool parameter = false;                                       // of the model; else the tensor stays as it is
    bool linear = false;                                          // a matrix to round to MergeRequest::as
    std::string saved;                                            // the name of the merged tensor; empty: the same
  };
  // A tensor of the adapter that the base does not have.
  struct Added {
    std::string name;
    const StoredTensor* tensor;
  };

  // Takes over all files but weights.
  void take_over(const AtomicFolder& aside, const std::vector<std::string>& names) const {
    if (const GgufWeights* gguf = files_.gguf()) {
      write_gguf_config(gguf->file(), aside.path(), /*replace=*/true);
      if (has_tokenizer(gguf->file())) write_gguf_tokenizer(gguf->file(), aside.path(), /*replace=*/true);
      return;
    }
    // Hidden files belong to a repository, and other folders hold the weights in other forms.
    aside.keep(source_.folder, [&](const std::string& name) {
      std::error_code ignored;
      const bool beside = name.starts_with(".") || (name != "chat_templates" && fs::is_directory(source_.folder / name, ignored));
      return beside || holds_weights(name) || name == kMergedFile || std::ranges::find(names, name) != names.end();
    });
  }

  void write_new_config(const fs::path& folder) const {
    if (result_.untied || !blocks_.empty()) {
      nlohmann::ordered_json config = config_that_is_there(folder);
      if (result_.untied) config["tie_word_embeddings"] = false;
      config.erase("quantization_config");
      write_config(folder, config);
    }
    if (facts_of(model_).new_head) model_.family().write(model_, folder);
    if (const auto type = asked_type()) write_config_dtype(folder, *type);
  }

  void check_out() const {
    std::error_code error;
    for (const fs::path& folder : {source_.folder, source_.adapter.init}) {
      if (!fs::equivalent(folder, request_.out, error)) continue;
      throw config_error("E-ADAPTER-OUT", "out", fmt::format("it is {}, from which this command reads", folder.string()),
                         "a new folder");
    }
    const bool empty =
        !fs::exists(request_.out, error) || (fs::is_directory(request_.out, error) && fs::is_empty(request_.out, error));
    if (empty || is_there(request_.out / kMergedFile)) return;
    throw config_error("E-ADAPTER-OUT", "out", fmt::format("{} exists and holds something else", request_.out.string()),
                       "a new folder, or one that was merged into before");
  }

  void find_sources() {
    const std::map<ValueId, LinearOperands> linear = linear_layers(graph_);
    const std::vector<StoredNames> stored = stored_parameters(graph_, model_, files_);
    std::size_t next = 0;
    const std::vector<ValueId> matrices = linear_matrices(graph_);
    for (const ValueId id : graph_.parameters()) {
      const StoredNames& names = stored[next++];
      const std::vector<std::string> in_modules = names_in_adapter(model_, graph_.values[id].name.text());
      if (names.found.empty()) {
        if (const StoredTensor* whole = adapter_.find(std::string(kAdapterPrefix) + in_modules.front())) {
          added_.push_back({names.saved, whole});
          ++result_.replaced;
        }
        continue;
      }
      for (const WeightFiles::Found& found : names.found) sources_[found.tensor->name].parameter = true;
      sources_[names.front().tensor->name].saved = names.saved;
      if (std::ranges::find(matrices, id) != matrices.end()) sources_[names.front().tensor->name].linear = true;
      if (names.blocks) {
        blocks_.insert(std::string(name(names.blocks->matrix().format)));
        beside_.insert(names.blocks->others().begin(), names.blocks->others().end());
        sources_[names.front().tensor->name].blocks = names.blocks;
      }
      for (const std::string& each : in_modules) {
        const std::string name = std::string(kAdapterPrefix) + each, module = name.substr(0, name.rfind('.'));
        const auto found = linear.find(id);
        if (found == linear.end() || !each.ends_with(".weight") || adapter_.find(module + ".lora_A.weight") == nullptr) continue;
        sources_[names.front().tensor->name].layer.emplace(module, found->second);
        ++result_.layers;
      }
      take_whole(in_modules, names);
    }
  }

  // The adapter may have a tied table twice. If the two differ, or one is absent, the head becomes a separate tensor.
  void take_whole(const std::vector<std::string>& in_modules, const StoredNames& names) {
    std::vector<const StoredTensor*> whole;
    for (const std::string& each : in_modules) whole.push_back(adapter_.find(std::string(kAdapterPrefix) + each));
    if (std::ranges::all_of(whole, [](const StoredTensor* each) { return each == nullptr; })) return;
    const StoredTensor* table = whole.front();
    if (whole.size() == 2 && (table == nullptr || whole[1] == nullptr || !same(*table, *whole[1]))) {
      result_.untied = true;
      head_ = whole[1];
      table_ = names.front();
      if (head_ != nullptr) ++result_.replaced;
      if (table != nullptr) sources_[names.front().tensor->name].whole = table, ++result_.replaced;
      return;
    }
    for (const WeightFiles::Found& found : names.found) sources_[found.tensor->name].whole = table;
    ++result_.replaced;
  }

  bool same(const StoredTensor& a, const StoredTensor& b) const { return all_of(adapter_, a.name) == all_of(adapter_, b.name); }

  // The type of all tensors; absent: the types of the base.
  std::optional<DType> asked_type() const {
    return request_.type || blocks_.empty() ? request_.type : std::optional(DType::bf16);
  }
  DType type_of(const WeightFiles::Found& found) const {
    const StoredTensor& tensor = *found.tensor;
    const Source& source = source_of(tensor);
    if (source.blocks || (source.parameter && is_number(tensor))) return asked_type().value_or(tensor.dtype.value_or(DType::f32));
    if (tensor.dtype) return *tensor.dtype;
    throw data_error("E-FORMAT-TENSOR", files_.path_of(found), fmt::format("{} is {}", tensor.name, tensor.stored_as),
                     "tensors of fp32, bf16 or fp16");
  }

  DType type_of(const Added& added) const { return asked_type().value_or(added.tensor->dtype.value_or(DType::f32)); }

  std::string saved_name(const StoredTensor& tensor) const {
    const Source& source = source_of(tensor);
    return source.saved.empty() ? tensor.name : source.saved;
  }

  const Source& source_of(const StoredTensor& tensor) const {
    static const Source kNone;
    const auto found = sources_.find(tensor.name);
    return found == sources_.end() ? kNone : found->second;
  }

  Shape shape_of(const StoredTensor& tensor) const {
    if (const StoredTensor* whole = source_of(tensor).whole) return whole->shape;
    const auto& blocks = source_of(tensor).blocks;
    return blocks ? Shape{blocks->matrix().rows, blocks->matrix().columns} : tensor.shape;
  }

  std::vector<TensorSpec> write_file(std::size_t number, const fs::path& path) {
    std::vector<WeightFiles::Found> tensors = files_.all();
    // A model with a new head has no layers but those of its parameters, such as ViT's pooler.
    std::erase_if(tensors, [&](const WeightFiles::Found& found) {
      return found.file != number || beside_.contains(found.tensor->name) ||
             (!added_.empty() && !source_of(*found.tensor).parameter);
    });
    const std::span<const Added> added = number + 1 == files_.files().size() ? std::span(added_) : std::span<const Added>();
    const bool adds_head = result_.untied && table_.file == number && !files_.find(kHead);
    std::vector<TensorSpec> specs;
    for (const WeightFiles::Found& found : tensors)
      specs.push_back({saved_name(*found.tensor), type_of(found), shape_of(*found.tensor)});
    if (adds_head) specs.push_back({kHead, type_of(table_), shape_of(*table_.tensor)});
    for (const Added& each : added) specs.push_back({each.name, type_of(each), each.tensor->shape});
    SafetensorsWriter writer(path, specs);
    for (const WeightFiles::Found& found : tensors) {
      const bool head = result_.untied && found.tensor->name == kHead;
      head ? write_head(writer) : write_tensor(writer, found);
    }
    if (adds_head) write_head(writer);
    for (const Added& each : added) {
      for_elements(each.tensor->shape.elements(), elements_of(adapter_, *each.tensor),
                   [&](std::int64_t, std::span<const float> numbers) { append(writer, each.name, numbers, type_of(each)); });
    }
    writer.commit();
    return specs;
  }

  // The numbers of a tensor of the base, in order.
  ReadElements base_elements(const WeightFiles::Found& found) const {
    const Source& source = source_of(*found.tensor);
    ReadElements read = [this, found](std::int64_t first, std::span<float> out) {
      std::array<std::byte, 1 << 16> staging;
      files_.read_f32(found, first, out, staging);
    };
    if (source.blocks) {
      StoredBlocks blocks = *source.blocks;
      blocks.load_scales();
      read = [blocks = std::move(blocks)](std::int64_t first, std::span<float> out) { blocks.read(first, out); };
    }
    return source.linear ? as_trained(std::move(read), source, shape_of(*found.tensor)) : read;
  }

  ReadElements as_trained(ReadElements read, const Source& source, const Shape& shape) const {
    if (request_.as == BaseFormat::bf16) {
      return [read = std::move(read)](std::int64_t first, std::span<float> out) {
        read(first, out);
        for (float& x : out) x = widen_bf16(narrow_bf16(x));
      };
    }
    if (request_.as != BaseFormat::int8 && request_.as != BaseFormat::nf4) return read;
    const bool nested = !blocks_.contains(std::string(name(BlockFormat::nf4)));  // as in prepare/training_graph
    const BlockFormat format = request_.as == BaseFormat::int8 ? BlockFormat::int8
                               : nested                        ? BlockFormat::nf4_nested
                                                               : BlockFormat::nf4;
    if (source.blocks && source.blocks->matrix().format == format) return read;
    return [in_blocks = std::make_shared<InBlocks>(BlockMatrix{format, shape[0], shape[1]}, std::move(read))](
               std::int64_t first, std::span<float> out) { in_blocks->next(first, out); };
  }

  void write_head(SafetensorsWriter& writer) const {
    const DType type = type_of(table_);
    const ReadElements read = head_ != nullptr ? elements_of(adapter_, *head_) : base_elements(table_);
    for_elements(shape_of(*table_.tensor).elements(), read,
                 [&](std::int64_t, std::span<const float> numbers) { append(writer, kHead, numbers, type); });
  }

  void write_tensor(SafetensorsWriter& writer, const WeightFiles::Found& found) {
    const StoredTensor& tensor = *found.tensor;
    const Source& source = source_of(tensor);
    if (!source.blocks && !(source.parameter && is_number(tensor))) return copy(writer, found);
    const DType type = type_of(found);
    const Shape shape = shape_of(tensor);
    const ReadElements read = source.whole != nullptr ? elements_of(adapter_, *source.whole) : base_elements(found);
    std::optional<LayerChange> change;
    if (source.layer && source.whole == nullptr) {
      change.emplace(adapter_, source.layer->first, source.layer->second, shape, source_.adapter);
      change->find_factors(read);
      result_.type = type;
      result_.rounded = result_.rounded || type != DType::f32;
    }
    for_elements(shape.elements(), read, [&](std::int64_t first, std::span<float> numbers) {
      if (change) change->apply(first, numbers);
      append(writer, saved_name(tensor), numbers, type);
    });
    files_.forget(found);
  }

  void copy(SafetensorsWriter& writer, const WeightFiles::Found& found) const {
    const StoredTensor& tensor = *found.tensor;
    std::array<std::byte, 1 << 16> piece;
    for (std::int64_t at = 0; at < tensor.bytes; at += std::ssize(piece)) {
      const std::span<std::byte> part =
          std::span(piece).first(static_cast<std::size_t>(std::min(std::ssize(piece), tensor.bytes - at)));
      files_.files()[found.file].read_part(tensor, at, part);
      writer.append(saved_name(tensor), part);
    }
  }

  // The record that prevents a second merge of the same adapter.
  void write_record(const fs::path& folder) const {
    nlohmann::ordered_json record = {{"schema", "plimsoll.merged/1"}, {"adapters", nlohmann::ordered_json::array()}};
    if (is_there(source_.folder / kMergedFile)) {
      const auto before = read_ordered_json_object(source_.folder / kMergedFile, JsonLimits{}, "E-ADAPTER-FOLDER");
      record["adapters"] = before.value("adapters", nlohmann::ordered_json::array());
    }
    record["adapters"].push_back(adapter_hash(adapter_));
    write_file_atomically(folder / kMergedFile, record.dump(1) + "\n");
  }

  const MergeRequest& request_;
  ModelSource source_;
  SafetensorsFile adapter_;
  ModelConfig model_;
  Graph graph_;
  WeightFiles files_;
  std::map<std::string, Source> sources_;
  std::vector<Added> added_;
  std::set<std::string> blocks_, beside_;  // formats of the base; tensors that belong to a matrix in blocks
  const StoredTensor* head_ = nullptr;     // the adapter's; null: the base's
  WeightFiles::Found table_;               // the base's table of an untied head
  MergeResult result_;
};

}  // namespace

MergeResult merge_adapter(const MergeRequest& request) { return Merge(request).run(); }

}  // namespace plimsoll
