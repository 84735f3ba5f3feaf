#include "verify/tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "base/error.h"
#include "formats/new_folder.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "models/all.h"
#include "models/conv_norm.h"
#include "models/gguf.h"
#include "weights/file_order.h"

namespace plimsoll::verification {
namespace {

constexpr std::int64_t kPiece = 1 << 18;  // elements
constexpr std::string_view kProgress = "plimsoll.progress";

std::vector<float> piece_of(const SafetensorsFile& file, const StoredTensor& tensor, std::int64_t begin, std::int64_t count) {
  std::vector<float> piece(static_cast<std::size_t>(count));
  std::array<std::byte, 1 << 14> staging;
  file.read_f32(tensor, begin, piece, staging);
  return piece;
}

// Calls f(begin, count) for pieces of kPiece elements.
template <class F>
void in_pieces(std::int64_t elements, F f) {
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) f(begin, std::min(kPiece, elements - begin));
}

bool same_bytes(const SafetensorsFile& a, const StoredTensor& in_a, const SafetensorsFile& b, const StoredTensor& in_b) {
  if (in_a.dtype != in_b.dtype || in_a.shape != in_b.shape) return false;
  bool same = true;
  in_pieces(in_a.bytes, [&](std::int64_t begin, std::int64_t count) {
    std::vector<std::byte> of_a(static_cast<std::size_t>(count)), of_b(static_cast<std::size_t>(count));
    a.read_part(in_a, begin, of_a);
    b.read_part(in_b, begin, of_b);
    same = same && of_a == of_b;
  });
  return same;
}

// The gradient of a parameter in the order in which files hold it: weights of convolutions have another one in checkpoints.
std::vector<float> slope_in_file_order(const SafetensorsFile& slopes, const StoredTensor& slope, const Shape& in_files) {
  std::vector<float> all = piece_of(slopes, slope, 0, slope.shape.elements());
  ensure(in_files.elements() == slope.shape.elements(), "verify", "a gradient of another shape than its weights");
  const FileOrder order(in_files);
  std::vector<float> ordered(all.size());
  for (std::int64_t output = 0; output < order.outputs(); ++output) {
    order.for_each(output, 0, std::ssize(all), [&](std::int64_t place, std::int64_t element) {
      ordered[static_cast<std::size_t>(output * order.row() + place)] = all[static_cast<std::size_t>(element)];
    });
  }
  return ordered;
}

// Maps each possible file name of a parameter with a gradient to the parameter.
std::map<std::string, std::string> parameters_by_stored_name(const ModelConfig& model, const SafetensorsFile& slopes,
                                                             std::string_view suffix) {
  std::map<std::string, std::string> parameters;
  for (const StoredTensor& slope : slopes.tensors()) {
    if (!slope.name.ends_with(suffix)) continue;
    const std::string parameter = slope.name.substr(0, slope.name.size() - suffix.size());
    for (const std::string& name : model.family().stored(model, parameter)) parameters[name] = parameter;
  }
  return parameters;
}

// The tensor whole.
std::vector<float> numbers_of(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  ensure(tensor != nullptr, "verify", "runs of one model have other tensors");
  return piece_of(file, *tensor, 0, tensor->shape.elements());
}

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string layer_group(std::string_view parameter) {
  const std::size_t last = parameter.rfind('.');
  std::string_view rest = parameter.substr(0, last);
  std::string group;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    group += is_number(part) ? "*" : part;
    if (dot == std::string_view::npos) return group;
    group += '.';
    rest = rest.substr(dot + 1);
  }
}

double Sums::relative() const {
  if (difference == 0) return 0;
  return reference > 0 ? std::sqrt(difference / reference) : std::numeric_limits<double>::infinity();
}

Sums total(const GroupSums& groups) {
  Sums sums;
  for (const auto& [name, each] : groups) {
    sums.difference += each.difference;
    sums.reference += each.reference;
  }
  return sums;
}

GroupSums compare_tensors(const std::filesystem::path& a, const std::filesystem::path& b, std::string_view suffix) {
  const SafetensorsFile file_a = SafetensorsFile::open(a), file_b = SafetensorsFile::open(b);
  GroupSums groups;
  for (const StoredTensor& tensor : file_b.tensors()) {
    if (!tensor.name.ends_with(suffix)) continue;
    const StoredTensor* other = file_a.find(tensor.name);
    ensure(other != nullptr && other->shape == tensor.shape, "verify", "runs of one model have other tensors");
    Sums& sums = groups[layer_group(std::string_view(tensor.name).substr(0, tensor.name.size() - suffix.size()))];
    in_pieces(tensor.shape.elements(), [&](std::int64_t begin, std::int64_t count) {
      const std::vector<float> of_a = piece_of(file_a, *other, begin, count), of_b = piece_of(file_b, tensor, begin, count);
      for (std::size_t i = 0; i < of_a.size(); ++i) {
        const double difference = double{of_a[i]} - of_b[i];
        sums.difference += difference * difference;
        sums.reference += double{of_b[i]} * of_b[i];
      }
    });
  }
  return groups;
}

StatisticsDifference compare_statistics(const std::filesystem::path& a, const std::filesystem::path& b) {
  const SafetensorsFile file_a = SafetensorsFile::open(a), file_b = SafetensorsFile::open(b);
  StatisticsDifference found;
  for (const StoredTensor& tensor : file_b.tensors()) {
    if (tensor.name.ends_with(kWindows)) {
      const StoredTensor* other = file_a.find(tensor.name);
      ensure(other != nullptr, "verify", "runs of one model have other tensors");
      found.same_windows = found.same_windows && same_bytes(file_a, *other, file_b, tensor);
    }
    if (!tensor.name.ends_with(kRunningMean)) continue;
    const std::string of_variance =
        tensor.name.substr(0, tensor.name.size() - std::string_view(kRunningMean).size()) + kRunningVariance;
    const std::vector<float> means_a = numbers_of(file_a, tensor.name), means = numbers_of(file_b, tensor.name),
                             variances_a = numbers_of(file_a, of_variance), variances = numbers_of(file_b, of_variance);
    ensure(means_a.size() == means.size() && variances.size() == means.size() && variances_a.size() == means.size(), "verify",
           "runs of one model have other tensors");
    Sums of_means, of_variances;
    for (std::size_t i = 0; i < means.size(); ++i) {
      const double mean = double{means_a[i]} - means[i], variance = double{variances_a[i]} - variances[i];
      of_means.difference += mean * mean;
      of_means.reference += double{means[i]} * means[i] + variances[i];
      of_variances.difference += variance * variance;
      of_variances.reference += double{variances[i]} * variances[i];
    }
    found.values = std::max({found.values, of_means.relative(), of_variances.relative()});
  }
  return found;
}

std::string first_difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const SafetensorsFile file_a = SafetensorsFile::open(a), file_b = SafetensorsFile::open(b);
  for (const StoredTensor& tensor : file_b.tensors()) {
    if (tensor.name == kProgress) continue;
    const StoredTensor* other = file_a.find(tensor.name);
    if (other == nullptr || !same_bytes(file_a, *other, file_b, tensor)) return tensor.name;
  }
  for (const StoredTensor& tensor : file_a.tensors()) {
    if (file_b.find(tensor.name) == nullptr) return tensor.name;
  }
  return "";
}

double write_moved(const std::filesystem::path& from, const std::filesystem::path& gradients, std::string_view suffix,
                   const std::string& group, double step, const std::filesystem::path& to) {
  const WeightFiles weights = weights_of_model(from);
  const SafetensorsFile slopes = SafetensorsFile::open(gradients);
  create_folder(to);
  const ModelConfig model = read_model(from);
  // Families keep what they find there: a folder of timm has an architecture that its sizes do not give.
  const std::filesystem::path config = "config.json";
  if (std::filesystem::exists(from / config)) {
    std::filesystem::copy_file(from / config, to / config, std::filesystem::copy_options::overwrite_existing);
  }
  model.family().write(model, to);
  const std::map<std::string, std::string> parameters = parameters_by_stored_name(model, slopes, suffix);
  std::vector<TensorSpec> specs;
  for (const SafetensorsFile& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      specs.push_back({tensor.name, tensor.dtype == DType::i64 ? DType::i64 : DType::f32, tensor.shape});
    }
  }
  SafetensorsWriter writer(to / kWeightsFile, specs);
  double along = 0;
  for (const TensorSpec& tensor : specs) {
    const WeightFiles::Found found = *weights.find(tensor.name);
    if (tensor.dtype == DType::i64) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(found.tensor->bytes));
      weights.files()[found.file].read_part(*found.tensor, 0, bytes);
      writer.append(tensor.name, bytes);
      continue;
    }
    const auto parameter = parameters.find(tensor.name);
    const StoredTensor* slope = parameter != parameters.end() && layer_group(parameter->second) == group
                                    ? slopes.find(parameter->second + std::string(suffix))
                                    : nullptr;
    const std::vector<float> ordered =
        slope != nullptr && tensor.shape.rank() == 4 ? slope_in_file_order(slopes, *slope, tensor.shape) : std::vector<float>();
    in_pieces(tensor.shape.elements(), [&](std::int64_t begin, std::int64_t count) {
      std::vector<float> piece = piece_of(weights.files()[found.file], *found.tensor, begin, count);
      if (slope != nullptr) {
        const std::vector<float> g = ordered.empty()
                                         ? piece_of(slopes, *slope, begin, count)
                                         : std::vector<float>(ordered.begin() + begin, ordered.begin() + begin + count);
        for (std::size_t i = 0; i < piece.size(); ++i) {
          const auto moved = static_cast<float>(piece[i] + step * g[i]);
          along += (double{moved} - piece[i]) * g[i];
          piece[i] = moved;
        }
      }
      writer.append(tensor.name, std::as_bytes(std::span(piece)));
    });
  }
  writer.commit();
  return along;
}

}  // namespace plimsoll::verification
