#include "train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "collective/together.h"
#include "device/process_memory.h"
#include "ops/accuracy/accuracy.h"
#include "ops/update/update.h"
#include "prepare/epochs.h"
#include "train/group_watch.h"
#include "train/noise_samples.h"
#include "weights/adapter_weights.h"

namespace plimsoll {
namespace {

double number_of(const Executor& executor, ValueId value) { return *executor.view(value).as_pointer<double>(); }

double denominator(const LossTerm& loss, std::int64_t units, std::int64_t samples) {
  return static_cast<double>(loss.per == Denominator::units ? units : samples);
}

std::span<std::byte> bytes_of(const Executor& executor, ValueId value) {
  const TensorView view = executor.view(value);
  return {view.data, static_cast<std::size_t>(view.bytes())};
}

BatchShare share_of(const Executor& executor) {
  const Peers* peers = executor.peers();
  return peers == nullptr ? BatchShare{} : BatchShare{peers->rank(), peers->count()};
}

// The totals of the losses of an evaluation, then the counts of right classes if there are any.
std::vector<double> totals_of(const Executor& executor, const Pass& pass, bool ran) {
  std::vector<double> totals;
  for (const LossTerm& loss : pass.losses) totals.push_back(ran ? number_of(executor, loss.total) : 0);
  if (!pass.correct.valid()) return totals;
  const std::span<const double> counts = executor.view(pass.correct).as<double>();
  for (const double count : counts) totals.push_back(ran ? count : 0);
  return totals;
}

// Numbers that a trainer sums over ranks after a window.
std::size_t summed_numbers(const Executor& executor, const TrainingGraph& model) {
  const auto count = [&](ValueId value) { return static_cast<std::size_t>(executor.view(value).shape.elements()); };
  return model.training.loss_totals.size() + count(model.training.report) +
         (model.underflow ? count(model.underflow->report) : 0);
}

// Losses, and counts of right classes.
std::size_t evaluated_numbers(const TrainingGraph& model) { return model.micro.losses.size() + ops::kTopClasses.size(); }

}  // namespace

EvaluationResult evaluate(Executor& executor, const SampleSource& source, std::int64_t batch, std::int64_t count,
                          const Pass& pass, ValueId staging, const OnEvaluated& on_evaluated, RankSums* ranks) {
  count = count == 0 ? source.count() : std::min(count, source.count());
  std::vector<FieldBuffer> fields(pass.inputs.size());
  const bool packs = std::ranges::find(pass.inputs, "segments", &Field::name) != pass.inputs.end();
  const std::int64_t row = packs ? executor.view(pass.input("segments")).shape[1] : std::numeric_limits<std::int64_t>::max();
  WindowBatches batches(source, {OrderKind::sequential, 0, source.count()}, evaluation_rule(count, batch, row, packs), batch,
                        /*batches=*/0);
  const BatchShare share = ranks == nullptr ? BatchShare{} : share_of(executor);
  bool ran = false;
  std::int64_t units = 0, number = 0;
  const auto run = [&](std::span<const PlacedSample> samples) {
    executor.run(pass.section, /*first=*/!std::exchange(ran, true), [&](Section) {
      source.read(samples, bytes_of(executor, staging));
      for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = {pass.inputs[i].name, executor.view(pass.inputs[i].value)};
      source.fill(samples, bytes_of(executor, staging), fields);
      for (const LossTerm& loss : pass.losses) *executor.view(loss.scale).as_pointer<float>() = 1;
    });
  };
  for (std::int64_t done = 0; done < count; ++number) {
    const std::span<const PlacedSample> samples = batches.next();
    if (number % share.ranks == share.rank) run(samples);
    for (const PlacedSample& each : samples) units += source.size(each.ref.sample).units;
    done += std::ssize(samples);
    if (on_evaluated) on_evaluated(done, count);
  }
  // Ranks without a batch left take part in the exchanges of the others.
  const std::int64_t last = number % share.ranks;
  if (last > 0 && share.rank >= last && executor.exchanges(pass.section)) run({});
  std::vector<double> totals = totals_of(executor, pass, ran);
  if (ranks != nullptr) ranks->run(totals);
  double sum = 0;
  for (std::size_t i = 0; i < pass.losses.size(); ++i) {
    sum += pass.losses[i].weight * totals[i] / denominator(pass.losses[i], units, count);
  }
  std::optional<Accuracy> accuracy;
  if (pass.correct.valid() && units > 0) {
    const double* counts = totals.data() + pass.losses.size();
    accuracy = {counts[ops::kTop1] / static_cast<double>(units), counts[ops::kTop5] / static_cast<double>(units)};
  }
  return {units, sum, accuracy};
}

DataSources::DataSources(const Config& config, const DataFiles& files)
    : name_(files.train->name()),
      windows_(window_rule(config, *files.train)),
      train_(files.train->source(reading_of(config, /*augments=*/true))),
      validation_(files.validation ? files.validation->source(reading_of(config)) : nullptr) {}

Trainer::Trainer(const Config& config, const TrainingGraph& model, const Plan& plan, Executor& executor, TrainingData data)
    : config_(config),
      model_(model),
      plan_(plan),
      executor_(executor),
      data_(std::move(data)),
      order_(sample_order(config, data_.train.count())),
      ahead_(data_.train, order_, data_.windows, plan.decisions.micro_batch,
             data_.windows.varies() ? 0 : plan.decisions.accumulation, share_of(executor)),
      share_(share_of(executor)) {
  progress_.micro_batch = plan.decisions.micro_batch;
  progress_.accumulation = plan.decisions.accumulation;
  progress_.seed = config.seed;
  const auto give = [&](ValueId value, const auto& to) {
    const std::vector<ValueId> replicas = replicas_of(plan.graph, value);
    group_.resize(replicas.size());
    for (std::size_t i = 0; i < replicas.size(); ++i) to(group_[i], replicas[i]);
  };
  for (const Field& field : model.micro.inputs) {
    give(field.value, [&](Fed& fed, ValueId value) {
      fed.values.push_back(value);
      fed.fields.push_back({field.name, executor.view(value)});
    });
  }
  for (const LossTerm& loss : model.micro.losses) {
    give(loss.scale, [&](Fed& fed, ValueId value) { fed.scales.push_back(value); });
  }
  if (model.training.step.valid()) steps_ = replicas_of(plan.graph, model.training.step);
  factors_.resize(model.micro.losses.size());
  if (executor.peers() == nullptr) return;
  sums_.resize(summed_numbers(executor, model));
  ranks_.emplace(*executor.peers(), executor.spare_event(), std::max(sums_.size(), evaluated_numbers(model)));
}

std::string accuracy_text(const std::optional<Accuracy>& accuracy) {
  return accuracy ? fmt::format(", accuracy {:.2f} % (top 5 {:.2f} %)", 100 * accuracy->top1, 100 * accuracy->top5) : "";
}

Trainer::~Trainer() = default;

void Trainer::make_wrong(const Faults& faults) {
  // All ranks have as many micro-steps, some of them without a sample.
  const std::int64_t most = plan_.decisions.accumulation * share_.ranks, count = std::ssize(faults.weights);
  if (count > 0 && (count > most || count <= most - share_.ranks)) {
    throw config_error("E-USAGE", "fault", fmt::format("it has {} weights", count),
                       share_.ranks == 1
                           ? fmt::format("one for each of the {} micro-steps", most)
                           : fmt::format("one for each micro-batch of the window, {} to {}", most - share_.ranks + 1, most));
  }
  if (faults.statistics != StatisticsFault::none) {
    wrong_statistics_.emplace(faults.statistics, plan_.graph, plan_.decisions.window().rounds(), executor_);
  }
  faults_ = faults;
}

void Trainer::enter(Phase phase) {
  if (before_phase_) before_phase_(phase);
}

void Trainer::load(const std::filesystem::path* checkpoint) {
  enter(Phase::load);
  executor_.load([&] {
    for (const Operand& state : executor_.state()) {  // state on the disk begins as zeros
      if (plan_.graph.values[state.value].parameter) continue;
      executor_.write_own(state.value, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
    }
    if (checkpoint != nullptr) {
      Checkpoint saved = load_checkpoint(plan_.graph, *checkpoint, config_.model.init, executor_);
      progress_ = saved.progress;
      progress_.micro_batch = plan_.decisions.micro_batch;
      progress_.accumulation = plan_.decisions.accumulation;
      Origin& origin = progress_.origin;
      origin.model = text_of_model(config_.model.config), origin.init = whole_path(config_.model.init);
      origin.adapter = whole_path(config_.adapter.init);
      frozen_ = std::move(saved.frozen);
    } else {
      const WeightSource source{config_.model.init, static_cast<std::uint64_t>(config_.seed)};
      Hasher hasher;
      layout_ = fill_parameters(plan_.graph, source, executor_, Parameters::model, &hasher);
      progress_.origin = origin_of(config_.model.config, config_.model.init, config_.adapter.init);
      progress_.origin.weights = hasher.hex();
      if (config_.adapter.active()) fill_adapter(plan_.graph, config_.model.config, config_.adapter, source.seed, executor_);
      frozen_ = frozen_weights(plan_.graph, source, executor_);
    }
  });
  if (config_.precision.compute == DType::f16) {
    if (!progress_.loss_scale) progress_.loss_scale = LossScaleState{.scale = config_.precision.loss_scale, .recent = {}};
    start_scale();
    find_watched();
  }
  start_prefetch();
}

void Trainer::start_scale() {
  const double growth = in_samples(config_.precision.loss_scale_growth, run_length(config_));
  scale_.emplace(LossScaleSettings{growth}, *progress_.loss_scale);
}

void Trainer::fork(bool same_order) {
  const Progress parent = std::exchange(progress_, Progress());
  progress_.position = same_order ? parent.position : 0;
  progress_.optimizer_updates = parent.optimizer_updates;
  progress_.micro_batch = parent.micro_batch, progress_.accumulation = parent.accumulation;
  progress_.seed = config_.seed;
  progress_.data_hash = parent.data_hash, progress_.config_hash = parent.config_hash;
  progress_.origin = parent.origin;
  progress_.loss_scale = parent.loss_scale;
  if (progress_.loss_scale) {
    progress_.loss_scale->skipped = 0;
    start_scale();
  }
  rewind();
}

void Trainer::start_prefetch() {
  prefetcher_.emplace(data_.train, data_.name, progress_.micro_batch,
                      std::array{bytes_of(executor_, model_.staging[0]), bytes_of(executor_, model_.staging[1])});
  rewind();
}

void Trainer::keep_prefetching() {
  while (prefetcher_->pending() < Prefetcher::kDepth) prefetcher_->submit(ahead_.next());
}

// Runs `work`, which reads data. If it fails, the parameters are whole: the update runs after the last micro-batch of a window.
// With several ranks, all of them learn it before the update.
template <class Work>
void Trainer::read_data(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (!ranks_) {
      lost_data_ = true;
      throw;
    }
    unread_ = error;
  }
}

// Rows of a rank that has no data until all ranks know it: its window goes on, since the others wait for its part of the sums.
static void leave_empty(std::span<const FieldBuffer> fields) {
  for (const FieldBuffer& field : fields) {
    std::fill_n(field.view.data, field.view.bytes(), std::byte{0});
    if (field.name == "sample_ids") std::ranges::fill(field.view.as<std::uint32_t>(), kAbsentSample);
  }
}

void Trainer::take_data(std::span<FieldBuffer> fields) {
  if (!unread_) {
    read_data([&] {
      prefetcher_->take(fields);
      keep_prefetching();
    });
  }
  if (unread_) leave_empty(fields);
}

// Once in each window, before it changes a parameter.
void Trainer::agree_on_data() {
  if (!ranks_) return;
  try {
    share_error(*executor_.peers(), executor_.spare_event(), unread_);
  } catch (...) {
    lost_data_ = true;
    throw;
  }
}

// `scale`: loss scale of fp16.
void Trainer::feed_micro(double scale) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    auto* step = executor_.view(steps_[i]).as_pointer<std::uint32_t>();
    step[0] = static_cast<std::uint32_t>(progress_.optimizer_updates + 1);
    step[1] = static_cast<std::uint32_t>((micro_in_window_ + static_cast<std::int64_t>(i)) * share_.ranks + share_.rank);
  }
  for (Fed& fed : group_) {
    // The address may change, since a device may still read the previous data.
    for (std::size_t i = 0; i < fed.values.size(); ++i) fed.fields[i].view.data = executor_.view(fed.values[i]).data;
    take_data(fed.fields);
    if (on_reading_) on_reading_(prefetcher_->reading());
    if (faults_.statistics == StatisticsFault::rows) count_absent_rows(fed.fields);
    const double weight = faults_.weight(progress_.updates + 1, micro_in_window_++ * share_.ranks + share_.rank);
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      *executor_.view(fed.scales[i]).as_pointer<float>() = static_cast<float>(factors_[i] * scale * weight);
    }
  }
  if (micro_in_window_ == ahead_.batches_of(window_) && updates_early()) agree_on_data();
}

// A window with one round may update parameters in it.
bool Trainer::updates_early() const { return plan_.decisions.window().rounds() == 1; }

// A fault: rows without a sample get the number of one. Their targets still do not count.
void Trainer::count_absent_rows(std::span<const FieldBuffer> fields) {
  for (const FieldBuffer& field : fields) {
    if (field.name == "sample_ids") std::ranges::replace(field.view.as<std::uint32_t>(), kAbsentSample, 0U);
  }
}

// The samples of all windows before this one, train.effective_batch each, for schedules.
std::int64_t Trainer::clock() const {
  return (progress_.updates + (scale_ ? scale_->state().skipped : 0)) * config_.train.effective_batch;
}

double Trainer::learning_rate() const { return rate_factor_ * learning_rate_at(config_, clock()); }

void Trainer::feed_update(std::int64_t update) {
  double* scalars = executor_.view(model_.training.update_scalars).as_pointer<double>();
  scalars[ops::kLearningRate] = learning_rate();
  scalars[ops::kMomentum] = momentum_at(config_, clock());
  scalars[ops::kBiasCorrection1] = 1 - std::pow(scalars[ops::kMomentum], static_cast<double>(update));
  scalars[ops::kBiasCorrection2] = 1 - std::pow(config_.optimizer.beta2, static_cast<double>(update));
  scalars[ops::kUpdate] = static_cast<double>(update);
  scalars[ops::kInverseScale] = scale_ ? 1 / scale_->scale() : 1;
}

// Finds the small accumulators in memory. They are checked after each round of a window with several rounds.
void Trainer::find_watched() {
  constexpr std::int64_t kMostElements = 1 << 14;
  if (plan_.decisions.window().rounds() == 1) return;
  for (std::size_t i = 0; i < plan_.graph.values.size(); ++i) {
    const Value& value = plan_.graph.values[ValueId{i}];
    if (value.role != Role::accumulator || !value.persistent() || value.type.dtype != DType::f32) continue;
    if (value.type.shape.elements() <= kMostElements && executor_.here(ValueId{i})) watched_.push_back(ValueId{i});
  }
}

bool Trainer::finite_so_far() const {
  // Losses are fetched only at the end of the window.
  for (const ValueId total : model_.training.loss_totals) {
    bool loss = false;
    executor_.read(
        total, [&](std::span<const std::byte> bytes) { loss = std::isfinite(*reinterpret_cast<const double*>(bytes.data())); });
    if (!loss) return false;
  }
  return std::all_of(watched_.begin(), watched_.end(), [&](ValueId value) {
    bool finite = true;
    executor_.read(value, [&](std::span<const std::byte> bytes) {
      const std::span numbers(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
      finite = finite && std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
    });
    return finite;
  });
}

// Returns true if loss and gradient are finite. With a loss scale, a window that overflows leaves the parameters unchanged and
// ends after the first round that shows it.
bool Trainer::run_window() {
  const double scale = scale_ ? scale_->scale() : 1;
  const std::int64_t update = progress_.optimizer_updates + 1;
  const auto feed = [&](Section section) {
    if (section == Section::micro) feed_micro(scale);
    if (section == Section::update) feed_update(update);
  };
  enter(Phase::first);
  micro_in_window_ = 0;
  first_norm_.reset();
  const std::int64_t rounds = ahead_.batches_of(window_) / plan_.decisions.group;
  for (std::int64_t micro = 0; micro < rounds; ++micro) {
    if (micro == 1) enter(Phase::steady);
    executor_.run(Section::micro, micro == 0, feed);
    if (wrong_statistics_) wrong_statistics_->after_micro(/*first=*/micro == 0);
    if (after_warmup_) std::exchange(after_warmup_, nullptr)();
    // Ranks leave a window together, at its end.
    if (scale_ && !ranks_ && !finite_so_far()) return false;
    if (micro == 0 && measures_noise(rounds)) {
      enter(phase_of(model_.noise->section));
      executor_.run(model_.noise->section, false, feed);
      first_norm_ = number_of(executor_, model_.noise->norm) / scale;
    }
  }
  if (wrong_statistics_) wrong_statistics_->before_update();
  if (!updates_early()) agree_on_data();
  if (rounds == 1 && plan_.decisions.window().rounds() > 1) enter(Phase::steady);  // the phase of the plan's update
  executor_.run(Section::update, false, feed);
  sum_over_ranks();
  return std::isfinite(loss_of_window()) && std::isfinite(number_of(executor_, model_.training.gradient_norm));
}

bool Trainer::measures_noise(std::int64_t rounds) const {
  return model_.noise && rounds > 1 && (progress_.updates + 1) % config_.train.noise_every == 0;
}

// The accumulators hold the sum over a round divided by the units of the window. With several ranks the first round is that of
// this rank alone.
std::optional<NoiseSums> Trainer::noise_of_window() const {
  if (!first_norm_) return {};
  const bool units = model_.micro.losses.front().per == Denominator::units;
  CountedSamples first, all;
  for (const PlacedSample& each : window_.placed) {
    const std::int64_t counted = units ? data_.train.size(each.ref.sample).units : 1;
    const std::int64_t batch = each.row / progress_.micro_batch;
    all.add(counted);
    if (batch % share_.ranks == share_.rank && batch / share_.ranks < plan_.decisions.group) first.add(counted);
  }
  if (first.units == 0 || first.units == all.units) return {};
  const double mean = *first_norm_ * all.units / first.units, norm = number_of(executor_, model_.training.gradient_norm);
  return NoiseSums{mean * mean, norm * norm, first.effective(), all.effective()};
}

void Trainer::start_window() {
  read_data([&] { cut_window(order_, data_.train, data_.windows, progress_.position, window_); });
  if (unread_) throw Error(*unread_);  // the sizes of samples, which all ranks read
  ensure(window_.units > 0, "trainer", "a window without a single unit");
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const LossTerm& loss = model_.micro.losses[i];
    factors_[i] = loss.weight / denominator(loss, window_.units, window_.samples);
  }
}

// The gradients' sums of squares in the report are those of all ranks; the others are those of a rank's shards.
void Trainer::sum_over_ranks() {
  if (!ranks_) return;
  std::size_t place = 0;
  for (const ValueId total : model_.training.loss_totals) sums_[place++] = number_of(executor_, total);
  const std::span<const double> own = executor_.view(model_.training.report).as<double>();
  std::ranges::copy(own, sums_.begin() + static_cast<std::ptrdiff_t>(place));
  if (model_.underflow) {
    const std::span<const double> counts = executor_.view(model_.underflow->report).as<double>();
    std::ranges::copy(counts, sums_.end() - std::ssize(counts));
  }
  ranks_->run(sums_);
  for (std::size_t i = kGradientSquares; i < own.size(); i += kReported) sums_[place + i] = own[i];
}

double Trainer::loss_of_window() const {
  double sum = 0;
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    sum += (ranks_ ? sums_[i] : number_of(executor_, model_.training.loss_totals[i])) * factors_[i];
  }
  return sum;
}

// Goes back to the first sample of the current window.
void Trainer::rewind() {
  prefetcher_->discard();
  ahead_.seek(progress_.position);
  keep_prefetching();
}

void Trainer::leave_window(LossScale::Next next, double scale) {
  Overflow overflow{.update = progress_.updates + 1,
                    .scale = scale,
                    .micro = micro_in_window_,
                    .skipped = next == LossScale::Next::skip,
                    .samples = {}};
  if (overflow.skipped) {
    progress_.samples += window_.end() - progress_.position;
    for (; progress_.position < window_.end(); ++progress_.position) overflow.samples.push_back(order_.at(progress_.position));
  }
  if (on_overflow_) on_overflow_(overflow);
  if (scale_->hopeless()) {
    throw Error(
        ErrorKind::user, ExitCode::diverged, "E-SCALE-FLOOR", fmt::format("update {}", overflow.update),
        fmt::format("gradients overflow with a loss scale of {:g}; {} windows were skipped", scale, scale_->state().skipped),
        "gradients that fp16 can hold",
        {Change("precision.compute", "bf16"),
         Change("optimizer.learning_rate", fmt::format("{:g}", config_.optimizer.learning_rate / 10))});
  }
  rewind();
}

Metrics Trainer::update() {
  const double start = seconds_now(), waited = prefetcher_->waited();
  const std::int64_t update = progress_.updates + 1;
  Metrics metrics;
  while (true) {
    start_window();
    const bool finite = run_window();
    if (!scale_) break;
    metrics.loss_scale = scale_->scale();
    const LossScale::Next next = scale_->tried(finite, config_.train.effective_batch);
    progress_.loss_scale = scale_->state();
    if (next == LossScale::Next::update) break;
    leave_window(next, *metrics.loss_scale);
  }
  metrics.update = update;
  metrics.units = window_.units;
  metrics.positions = window_.positions;
  metrics.micro_steps = ahead_.batches_of(window_) * share_.ranks;
  metrics.padding = metrics.micro_steps * progress_.micro_batch * data_.windows.row - window_.positions;
  metrics.loss = loss_of_window();
  metrics.grad_norm = number_of(executor_, model_.training.gradient_norm);
  metrics.learning_rate = learning_rate();
  if (config_.schedule.momentum) metrics.momentum = momentum_at(config_, clock());
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
    throw Error(ErrorKind::user, ExitCode::diverged, "E-DIVERGED", fmt::format("update {}", update),
                fmt::format("DIVERGED_NONFINITE: the loss is {} and the gradient norm {}", metrics.loss, metrics.grad_norm),
                "finite numbers; this update is not saved",
                {Change("optimizer.learning_rate", fmt::format("{:g}", config_.optimizer.learning_rate / 10))});
  }
  if (faults_.keep_gradients) executor_.keep_gradients();
  progress_.updates = update;
  ++progress_.optimizer_updates;
  progress_.samples += window_.end() - progress_.position;
  progress_.position = window_.end();
  progress_.units += metrics.units;
  progress_.loss = metrics.loss;
  metrics.update_ratio = GroupWatch::update_ratio(report());
  if (model_.underflow) metrics.underflow = GroupWatch::underflow(small_gradients());
  metrics.noise = noise_of_window();
  metrics.samples = progress_.samples;
  metrics.seconds = seconds_now() - start;
  metrics.wait_seconds = prefetcher_->waited() - waited;
  metrics.time = utc_seconds_now();
  metrics.vm_hwm = peak_resident();
  progress_.seconds += metrics.seconds;
  return metrics;
}

std::span<const double> Trainer::report() const {
  const std::size_t numbers = kReported * model_.training.reported.size();
  if (ranks_) return std::span(sums_).subspan(model_.training.loss_totals.size(), numbers);
  return executor_.view(model_.training.report).as<double>();
}

std::span<const double> Trainer::small_gradients() const {
  if (!model_.underflow) return {};
  if (ranks_) return std::span(sums_).subspan(model_.training.loss_totals.size() + kReported * model_.training.reported.size());
  return executor_.view(model_.underflow->report).as<double>();
}

EvaluationResult Trainer::evaluate_now(const OnEvaluated& on_evaluated) {
  enter(phase_of(model_.evaluate.value().section));
  prefetcher_->discard();  // the staging buffers hold training data that was read ahead; it is read again later
  const EvaluationResult result = evaluate(executor_, *data_.validation, progress_.micro_batch, config_.train.evaluate_samples,
                                           model_.evaluate.value(), model_.staging[0], on_evaluated, ranks_ ? &*ranks_ : nullptr);
  rewind();
  return result;
}

void Trainer::begin_answers() {
  enter(phase_of(model_.answers.front().section));
  executor_.clear_caches();
}

void Trainer::run_pass(const Pass& pass, const std::function<void()>& feed) {
  enter(phase_of(pass.section));
  executor_.run(pass.section, /*window_start=*/false, [&](Section) { feed(); });
}

void Trainer::save_checkpoint_to(const std::filesystem::path& folder) {
  enter(Phase::save);
  executor_.save([&] { save_checkpoint(plan_.graph, progress_, frozen_, folder, executor_); });
}

void Trainer::save_weights_to(const std::filesystem::path& folder, const SaveOptions& options) {
  enter(Phase::save);
  SaveOptions all = options;
  if (config_.adapter.active()) all.adapter = &config_.adapter, all.base = config_.model.init;
  executor_.save([&] { save_weights(plan_.graph, config_.model.config, layout_, folder, executor_, all); });
}

bool Trainer::rounds_weights() const { return plimsoll::rounds_weights(plan_.graph, config_.model.config, layout_); }

std::string Trainer::hash_parameters() const { return parameters_hash(plan_.graph, executor_); }

}  // namespace plimsoll
