#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/atomic_folder.h"
#include "formats/config_json.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "models/family.h"
#include "tensor/half.h"
#include "weights/file_order.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

constexpr std::size_t kPiece = 1 << 12;  // elements

// Appends a part of a tensor that is `from` in memory and `to` in the file. Narrowing rounds to nearest even; numbers widened on
// reading and unchanged since keep their bits.
void append_as(SafetensorsWriter& writer, const std::string& name, std::span<const std::byte> part, DType from, DType to) {
  if (from == to) return writer.append(name, part);
  std::array<float, kPiece> wide;
  std::array<std::byte, kPiece * sizeof(float)> narrowed;
  const auto size = static_cast<std::size_t>(size_of(from));
  for (std::size_t at = 0; at < part.size(); at += kPiece * size) {
    const std::span<const std::byte> piece = part.subspan(at, std::min(kPiece * size, part.size() - at));
    const std::span<float> numbers = std::span(wide).first(piece.size() / size);
    widen(from, piece.data(), numbers);
    narrow(to, numbers, narrowed.data());
    writer.append(name, std::span(narrowed).first(numbers.size() * static_cast<std::size_t>(size_of(to))));
  }
}

// Appends the decoded numbers of a matrix in blocks. The bytes after the codes are read first, because they contain the scales.
void append_blocks(SafetensorsWriter& writer, const TensorSpec& tensor, const BlockMatrix& matrix, ValueId value,
                   const Executor& executor) {
  constexpr std::int64_t kTile = 1 << 15;  // elements: whole blocks of any format
  const std::int64_t codes = code_bytes(matrix).n, elements = matrix.rows * matrix.columns;
  const auto tile = static_cast<std::size_t>(code_bytes({matrix.format, 1, kTile}).n);
  std::vector<std::byte> behind, ready;
  std::int64_t at = 0;
  executor.read(value, [&](std::span<const std::byte> part) {
    const auto skipped = static_cast<std::size_t>(std::clamp<std::int64_t>(codes - at, 0, std::ssize(part)));
    behind.insert(behind.end(), part.begin() + static_cast<std::ptrdiff_t>(skipped), part.end());
    at += std::ssize(part);
  });
  std::vector<float> numbers;
  std::int64_t taken = 0, written = 0;
  const auto append_ready = [&] {
    numbers.resize(static_cast<std::size_t>(std::min(kTile, elements - written)));
    decode_blocks(matrix, {ready.data(), written, behind.data()}, written, numbers);
    append_as(writer, tensor.name, std::as_bytes(std::span(numbers)), DType::f32, tensor.dtype);
    written += std::ssize(numbers);
    ready.clear();
  };
  executor.read(value, [&](std::span<const std::byte> part) {
    part = part.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(part), codes - taken)));
    taken += std::ssize(part);
    while (!part.empty()) {
      const std::size_t count = std::min(part.size(), tile - ready.size());
      ready.insert(ready.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
      part = part.subspan(count);
      if (ready.size() == tile) append_ready();
    }
  });
  if (!ready.empty()) append_ready();
}

// Appends a convolution's weights in the order of files, some rows after each pass over the value.
void append_in_order(SafetensorsWriter& writer, const TensorSpec& tensor, DType dtype, ValueId value, const Executor& executor) {
  constexpr std::int64_t kRows = 1 << 20;  // bytes
  const FileOrder order(tensor.shape);
  const std::int64_t size = size_of(dtype), some = std::clamp<std::int64_t>(kRows / (order.row() * size), 1, order.outputs());
  std::vector<std::byte> rows(static_cast<std::size_t>(some * order.row() * size));
  for (std::int64_t begin = 0; begin < order.outputs(); begin += some) {
    const std::int64_t end = std::min(order.outputs(), begin + some);
    std::int64_t done = 0;
    executor.read(value, [&](std::span<const std::byte> part) {
      const std::int64_t count = std::ssize(part) / size;
      for (std::int64_t output = begin; output < end; ++output) {
        std::byte* const row = rows.data() + (output - begin) * order.row() * size;
        order.for_each(output, done, done + count, [&](std::int64_t place, std::int64_t element) {
          std::memcpy(row + place * size, part.data() + (element - done) * size, static_cast<std::size_t>(size));
        });
      }
      done += count;
    });
    append_as(writer, tensor.name, std::span(rows).first(static_cast<std::size_t>((end - begin) * order.row() * size)), dtype,
              tensor.dtype);
  }
}

void write_file(const Graph& graph, const WeightsFile& file, const std::filesystem::path& folder, const Executor& executor,
                bool averages) {
  SafetensorsWriter writer(folder / file.name, file.tensors);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const TensorSpec& tensor = file.tensors[i];
    const ValueId saved = saved_value(graph, file.parameters[i], averages);
    const Value& value = graph.values[saved];
    if (value.parameter && value.parameter->blocks) {
      append_blocks(writer, tensor, *value.parameter->blocks, saved, executor);
      continue;
    }
    const DType dtype = value.type.dtype;
    // An average has no properties of its own.
    if (const auto& order = graph.values[file.parameters[i]].parameter->in_files; order && order->rank() == 4) {
      append_in_order(writer, tensor, dtype, saved, executor);
      continue;
    }
    executor.read(saved, [&](std::span<const std::byte> part) { append_as(writer, tensor.name, part, dtype, tensor.dtype); });
  }
  writer.commit();
}

}  // namespace

WeightsBytes weights_bytes(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages) {
  WeightsBytes bytes;
  const std::vector<WeightsFile> files = files_of(graph, config, layout, averages);
  for (const WeightsFile& file : files) {
    const Bytes each = safetensors_bytes(file.tensors);
    bytes.all += each;
    bytes.largest = std::max(bytes.largest, each);
  }
  if (layout.index) bytes.all += Bytes{std::ssize(index_text_of(files))};
  return bytes;
}

bool rounds_weights(const Graph& graph, const ModelConfig& config, const WeightLayout& layout) {
  for (const WeightsFile& file : files_of(graph, config, layout, /*averages=*/false)) {
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
      const Value& value = graph.values[file.parameters[i]];
      if (!is_frozen(value) && size_of(file.tensors[i].dtype) < size_of(value.type.dtype)) return true;
    }
  }
  return false;
}

void save_weights(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, const std::filesystem::path& folder,
                  const Executor& executor, const SaveOptions& options) {
  std::error_code error;
  if (std::filesystem::is_symlink(folder, error)) {
    throw data_error("E-IO-WRITE", folder.string(), "it is a link, not a folder", "a folder of the run itself");
  }
  std::filesystem::create_directories(std::filesystem::absolute(folder, error).parent_path(), error);
  AtomicFolder aside(folder);
  const std::vector<WeightsFile> files = files_of(graph, config, layout, options.averages);
  const auto replaced = [&](const std::string& name) {
    return is_weights_name(name) || std::ranges::find(files, name, &WeightsFile::name) != files.end();
  };
  aside.keep(options.beside.empty() ? folder : options.beside, replaced);
  for (const WeightsFile& file : files) write_file(graph, file, aside.path(), executor, options.averages);
  if (!options.note.empty()) write_file_atomically(aside.path() / options.note, options.note_text);
  if (options.adapter != nullptr) {
    write_file_atomically(aside.path() / kAdapterConfig, peft_config_text(graph, config, *options.adapter, options.base));
    return aside.commit();
  }
  if (layout.index) write_file_atomically(aside.path() / kWeightsIndex, index_text_of(files));
  config.family().write(config, aside.path());
  if (const auto dtype = common_dtype(files)) write_config_dtype(aside.path(), *dtype);
  aside.commit();
}

}  // namespace plimsoll
