#include "data/image_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "data/cache_folders.h"
#include "data/data_formats.h"
#include "data/data_kinds.h"
#include "data/file_pieces.h"
#include "data/held_out.h"
#include "data/image_arrays.h"
#include "data/token_place.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Changes with the content of files made from the same data.
constexpr std::string_view kVersion = "images/2";

// The files of one side, and the keys that name them.
struct Side {
  const DataPaths &images, &labels;
  std::string_view images_key, labels_key;
};
Side training_side(const DataRequest& request) { return {request.train, request.images.labels, "data.train", "data.labels"}; }
Side validation_side(const DataRequest& request) {
  return {request.validation, request.images.validation_labels, "data.validation", "data.validation_labels"};
}

// Channels of the model: one number is for all of them.
std::vector<double> by_channel(const std::vector<double>& numbers, std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (numbers.size() == count) return numbers;
  ensure(numbers.size() == 1, "ImageSet", "numbers of other channels");
  return std::vector<double>(count, numbers.front());
}

ImageRule rule_of(const ImageRequest& request) {
  return {.channels = request.channels,
          .mean = by_channel(request.mean, request.channels),
          .std = by_channel(request.std, request.channels),
          .pad_crop = request.pad_crop,
          .flip = request.flip};
}

// A published file with its stamp, from the hash of its bytes to their reading.
struct Opened {
  File file;
  FileStamp stamp;
};

std::vector<Opened> open_all(const DataPaths& paths) {
  std::vector<Opened> files;
  for (const std::filesystem::path& path : data_files(paths)) {
    File file = File::open(path, "E-DATA-MISSING");
    const FileStamp stamp = stamp_of(file);
    files.push_back({std::move(file), stamp});
  }
  return files;
}

struct ImageFiles {
  ImageFile train;
  std::optional<ImageFile> held_out;
};

// Unpacks the files of one side into the cache.
class ImageMaker {
 public:
  ImageMaker(const DataRequest& request, const Side& side, double held_out)
      : request_(request),
        side_(side),
        held_out_(held_out),
        folders_{request.cache, request.elsewhere},
        images_(open_all(side.images)),
        labels_(open_all(side.labels)) {
    check_labels();
    find_names();
  }

  ImageFiles open() {
    std::optional<ImageFile> train = found(train_), rest = held_out_ > 0 ? found(rest_) : std::nullopt;
    if (train && (held_out_ == 0 || rest)) return {*std::move(train), std::move(rest)};
    const std::filesystem::path folder = folders_.fill({train_, rest_}, [&](const std::filesystem::path& to) { unpack(to); });
    ImageFiles files{made(folder / train_), {}};
    if (held_out_ > 0) files.held_out = made(folder / rest_);
    return files;
  }

 private:
  void check_labels() const {
    if (!has_label_files(request_.format)) return ensure(labels_.empty(), "ImageMaker", "labels beside images that hold theirs");
    if (images_.size() == labels_.size()) return;
    throw data_error(
        "E-DATA-LABELS", std::string(side_.labels_key),
        labels_.empty()
            ? fmt::format("no labels of {} are given", side_.images.text())
            : fmt::format("{} has {} file(s), and {} {}", side_.labels_key, labels_.size(), side_.images_key, images_.size()),
        "a file of labels for each file of images, in the same order", {Change(std::string(side_.labels_key), "FILE")});
  }

  // Names the files by a hash of all inputs, for which the data are read.
  void find_names() {
    Hasher hasher;
    hasher.add(kVersion).add(request_.format).add(fmt::format("{:.17g}", held_out_));
    for (const std::vector<Opened>* list : {&images_, &labels_}) {
      for (const Opened& each : *list) {
        for_each_piece(each.file, 0, each.file.size(), [&](std::span<const std::byte> piece) { hasher.add(piece); });
        hasher.add(fmt::format("{}", each.file.size()));
      }
    }
    train_ = fmt::format("images-{}.bin", hasher.hex());
    rest_ = fmt::format("images-{}-held-out.bin", hasher.hex());
  }

  // Nothing if the cache lacks the file, or the file was cut or damaged.
  std::optional<ImageFile> found(const std::string& name) const {
    std::optional<File> file = folders_.find(name);
    if (!file) return {};
    try {
      return open_image_file(*std::move(file), side_.images.text(), /*verify=*/true);
    } catch (const Error&) {
      return {};
    }
  }
  ImageFile made(const std::filesystem::path& path) const {
    return open_image_file(File::open(path, "E-DATA-MISSING"), side_.images.text(), /*verify=*/true);
  }

  void unpack(const std::filesystem::path& folder) const {
    std::optional<ImageFileWriter> train, rest;
    ImageShape shape;
    std::vector<std::byte> pixels;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const File *images = &images_[i].file, *labels = labels_.empty() ? nullptr : &labels_[i].file;
      const std::unique_ptr<ImageArray> array = open_image_array(request_.format, *images, labels);
      if (!train) {
        shape = array->shape();
        train.emplace(folder / train_, shape);
        if (held_out_ > 0) rest.emplace(folder / rest_, shape);
        pixels.resize(static_cast<std::size_t>(shape.bytes()));
      }
      if (array->shape() != shape) {
        throw data_error(
            "E-DATA-IMAGE", images->path(),
            fmt::format("its images have {0} x {0} pixels of {1} channel(s), and those of {2} {3} x {3} of {4}",
                        array->shape().size, array->shape().channels, images_.front().file.path(), shape.size, shape.channels),
            "images of one size");
      }
      for (std::int64_t label = array->next(pixels); label >= 0; label = array->next(pixels)) {
        (is_held_out(pixels, held_out_) ? *rest : *train).add(pixels, label);
      }
    }
    // Other content would get the name of the previous one.
    for (const std::vector<Opened>* list : {&images_, &labels_}) {
      for (const Opened& each : *list) require_unchanged(each.file, each.stamp);
    }
    if (train->images() == 0 && !rest)
      throw data_error("E-DATA-EMPTY", side_.images.text(), "it holds no image", "images to train on");
    if (rest) {
      require_both_sides(side_.images, "images", train->images(), rest->images(),
                         "with separate images, and data.validation_labels");
    }
    // Both parts have the classes of the whole.
    const std::int64_t classes = std::max(train->classes(), rest ? rest->classes() : 0);
    train->commit(classes);
    if (rest) rest->commit(classes);
  }

  const DataRequest& request_;
  Side side_;
  double held_out_;
  CacheFolders folders_;
  std::vector<Opened> images_, labels_;
  std::string train_, rest_;  // names of the files
};

void check_shape(const ImageRequest& model, const ImageShape& images, const std::string& name) {
  const auto pixels = [](std::int64_t size) { return fmt::format("{0} x {0} pixels", size); };
  if (model.size > 0 && images.size != model.size) {
    throw data_error("E-DATA-IMAGE", name,
                     fmt::format("its images have {}, and the model takes {}", pixels(images.size), pixels(model.size)),
                     "images of the model's size", {});
  }
  if (images.channels <= model.channels) return;
  throw data_error(
      "E-DATA-IMAGE", name, fmt::format("its images have {} channels, and the model has {}", images.channels, model.channels),
      "a model of coloured images", model.keeps_classes ? Remedies{} : Remedies{Change("model.channels", images.channels)});
}

void check_model(const DataRequest& request, const ImageFile& images) {
  const ImageRequest& model = request.images;
  check_shape(model, images.shape, images.name);
  if (model.classes == 0 || images.classes <= model.classes) return;
  throw config_error("E-CONFIG-CLASSES", images.name,
                     fmt::format("a label is {}, and the model has {} classes", images.classes - 1, model.classes),
                     "labels below the classes of the model, counted from 0",
                     {model.keeps_classes ? Change("model.head", "new") : Change("model.classes", images.classes)});
}

std::unique_ptr<ImageSet> set_of(const DataRequest& request, ImageFile images) {
  check_model(request, images);
  return std::make_unique<ImageSet>(std::move(images), rule_of(request.images), request.format);
}

DataFiles open(const DataRequest& request) {
  if (request.images.channels == 0) {
    throw config_error("E-CONFIG-CONFLICT", "data.format",
                       fmt::format("it is \"{}\", and the model takes no images", request.format),
                       "a model of images, or tokens");
  }
  ImageFiles train = ImageMaker(request, training_side(request), request.held_out).open();
  DataFiles files{set_of(request, std::move(train.train)), {}};
  if (train.held_out) files.validation = set_of(request, *std::move(train.held_out));
  if (request.held_out > 0 || request.validation.empty()) return files;
  std::unique_ptr<ImageSet> validation = set_of(request, ImageMaker(request, validation_side(request), 0).open().train);
  const ImageShape own = validation->images().shape, of_train = dynamic_cast<const ImageSet&>(*files.train).images().shape;
  if (own != of_train) {
    throw data_error("E-DATA-IMAGE", validation->name(),
                     fmt::format("its images have {0} x {0} pixels of {1} channel(s), and those of the training {2} x {2} of {3}",
                                 own.size, own.channels, of_train.size, of_train.channels),
                     "images like those of data.train");
  }
  files.validation = std::move(validation);
  return files;
}

// The shape of the images in the first file that is there; nothing if all are missing.
std::optional<ImageShape> images_there(const DataRequest& request) {
  for (const DataPaths* paths : {&request.train, &request.validation}) {
    for (const std::filesystem::path& name : paths->names) {
      if (first_missing(name)) continue;
      const File file = File::open(data_files(name).front(), "E-DATA-MISSING");
      const ImageShape shape = image_shape(request.format, file);
      check_shape(request.images, shape, file.path());
      return shape;
    }
  }
  return {};
}

// The shape of missing images: that of other images, else that of the model if it has one, else that of the published sets.
ImageShape assumed_images(const DataRequest& request) {
  if (const std::optional<ImageShape> there = images_there(request)) return *there;
  const bool cifar = !has_label_files(request.format);
  const std::int64_t usual = cifar ? 32 : 28;
  return {request.images.size > 0 ? request.images.size : usual, cifar ? 3 : std::max<std::int64_t>(1, request.images.channels)};
}

RowShape shape_of(const ImageShape& images) { return {RowBytes(0, images.bytes() + kLabelBytes), images.size}; }

std::vector<AssumedData> assume(const DataRequest& request) {
  std::vector<AssumedData> assumed;
  for (const Side& side : {training_side(request), validation_side(request)}) {
    for (const auto& [key, paths] : {std::pair(side.images_key, &side.images), {side.labels_key, &side.labels}}) {
      const std::optional<std::filesystem::path> missing = first_missing(*paths);
      if (!missing) continue;
      const ImageShape images = assumed_images(request);
      const bool labels = key == side.labels_key;
      assumed.push_back({std::string(key), missing->string(), request.format, shape_of(images).bytes,
                         labels ? "labels below the classes of the model"
                                : fmt::format("images of {0} x {0} pixels, {1} byte{2} each", images.size, images.channels,
                                              images.channels == 1 ? "" : "s")});
    }
  }
  return assumed;
}

RowShape assumed_shape(const DataRequest& request, const std::vector<AssumedData>& assumed) {
  const auto missing = [&](const Side& side) {
    return std::ranges::any_of(
        assumed, [&](const AssumedData& data) { return data.key == side.images_key || data.key == side.labels_key; });
  };
  std::optional<RowShape> shape;
  for (const Side& side : {training_side(request), validation_side(request)}) {
    if (side.images.empty() || missing(side)) continue;
    const RowShape own = shape_of(ImageMaker(request, side, 0).open().train.shape);
    shape = shape ? both(*shape, own) : own;
  }
  return shape.value_or(shape_of(assumed_images(request)));
}

json place_of(const ImageFile& images) {
  return {{"path", json_path(images.file.path())}, {"stamp", to_json(images.stamp)}, {"name", json_path(images.name)}};
}

std::unique_ptr<DataSet> at(const json& place) {
  const json& images = place.at("images");
  // The process that opened it has compared the seal, and the stamp shows that it is the same file.
  ImageFile file = open_image_file(file_at(images.at("path"), images.at("stamp")), images.at("name"), /*verify=*/false);
  const json& rule = place.at("rule");
  return std::make_unique<ImageSet>(std::move(file),
                                    ImageRule{.channels = rule.at("channels"),
                                              .mean = rule.at("mean"),
                                              .std = rule.at("std"),
                                              .pad_crop = rule.at("pad_crop"),
                                              .flip = rule.at("flip")},
                                    place.at("format"));
}

std::vector<json> show(const DataRequest& request, std::int64_t samples) {
  const ImageFile images = ImageMaker(request, training_side(request), 0).open().train;
  std::vector<json> shown;
  std::vector<std::byte> record(static_cast<std::size_t>(images.record_bytes()));
  for (std::int64_t i = 0; i < std::min(samples, images.images); ++i) {
    images.read(i, record);
    const std::span pixels = std::span(record).first(static_cast<std::size_t>(images.shape.bytes()));
    double sum = 0;
    for (const std::byte pixel : pixels) sum += std::to_integer<int>(pixel);
    shown.push_back({{"label", label_of(record)},
                     {"size", images.shape.size},
                     {"channels", images.shape.channels},
                     {"mean", sum / 255 / static_cast<double>(pixels.size())}});
  }
  return shown;
}

// An IDX file with these sizes, which the numbers follow.
void begin_idx(AtomicFile& out, const std::vector<std::int64_t>& sizes) {
  std::string header{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::int64_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift & 0xFF);
  }
  out.write(header);
}

}  // namespace

const DataKind kImages{.name = "images",
                       .formats = kImageFormats,
                       .words = {"image", "image", "img/s", "images"},
                       .holds_out = true,
                       .pixels = true,
                       .open = open,
                       .assume = assume,
                       .assumed_shape = assumed_shape,
                       .at = at,
                       .show = show};

const DataKind& ImageSet::kind() const { return kImages; }

std::unique_ptr<SampleSource> ImageSet::source(const Reading& reading) const {
  return std::make_unique<ImageSource>(images_, rule_, reading.augments, reading.seed);
}

RowShape ImageSet::row_shape(bool) const { return shape_of(images_.shape); }

// Sizes and labels were compared when the files were opened.
std::optional<Recurring> ImageSet::check_validation(const DataSet&, const Reading&, std::int64_t) const { return {}; }

json ImageSet::place() const {
  return {{"kind", kImages.name},
          {"format", format_},
          {"images", place_of(images_)},
          {"rule",
           {{"channels", rule_.channels},
            {"mean", rule_.mean},
            {"std", rule_.std},
            {"pad_crop", rule_.pad_crop},
            {"flip", rule_.flip}}}};
}

// The image with the largest label, unless one of the first has it: an extract has the classes of the whole.
std::int64_t ImageSet::last_of_extract(std::int64_t samples) const {
  std::vector<std::byte> record(static_cast<std::size_t>(images_.record_bytes()));
  for (std::int64_t i = 0; i < images_.images; ++i) {
    images_.read(i, record);
    if (label_of(record) + 1 == images_.classes) return std::max(i, samples - 1);
  }
  return samples - 1;
}

DataExtract ImageSet::extract(const std::filesystem::path& folder, std::int64_t samples, const Reading&) const {
  const std::filesystem::path images = folder / "images", labels = folder / "labels";
  AtomicFile pixels_out(images), labels_out(labels);
  const ImageShape& shape = images_.shape;
  std::vector<std::int64_t> sizes{samples, shape.size, shape.size};
  if (shape.channels > 1) sizes.push_back(shape.channels);
  begin_idx(pixels_out, sizes);
  begin_idx(labels_out, {samples});
  std::vector<std::byte> record(static_cast<std::size_t>(images_.record_bytes()));
  const std::int64_t last = last_of_extract(samples);
  for (std::int64_t i = 0; i < samples; ++i) {
    images_.read(i + 1 < samples ? i : last, record);
    pixels_out.write(std::span(record).first(static_cast<std::size_t>(shape.bytes())));
    labels_out.write(std::span(record).subspan(static_cast<std::size_t>(shape.bytes()), 1));
  }
  require_unchanged(images_.file, images_.stamp);
  pixels_out.commit();
  labels_out.commit();
  // An image is the same in all epochs, so that two trainings can be compared.
  return {{{"data.train", images.string()},
           {"data.labels", labels.string()},
           {"data.format", "idx"},
           {"data.validation_labels"},
           {"image.pad_crop", "0"},
           {"image.flip", "false"}},
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 1)};
}

}  // namespace plimsoll
