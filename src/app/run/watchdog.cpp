#include "bert_hpc/app/run/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/comm/heartbeat.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {

using Clock = std::chrono::steady_clock;
using comm::SignOfLife;

SilenceTable::SilenceTable(const WatchdogSettings& settings, int ranks, double now)
    : settings_(settings), ranks_(static_cast<std::size_t>(ranks)) {
  forgive(now);
}

SilenceTable::Change SilenceTable::heard(int rank, double now) {
  Rank& r = of(rank);
  const bool was_named = r.told && r.known;
  r.last = now;
  r.known = true;
  r.told = false;
  return was_named ? Change::back : Change::none;
}

void SilenceTable::ended(int rank) {
  of(rank).ended = true;
}

SilenceTable::Change SilenceTable::judge(int rank, double now, std::int64_t step) {
  Rank& r = of(rank);
  if (r.ended || r.over) return Change::none;
  // It may have done its part of one step before its last sign, but not of two.
  constexpr std::int64_t enough = 2;
  if (step >= r.step + enough) {
    r.step = step;
    r.took_part = now;
  }
  const double silent = silence(rank, now);
  // Not just since its last sign, as signs are rarer than steps.
  if (r.known && r.took_part - r.last >= settings_.seconds) {
    r.known = false;
    r.told = true;
    return Change::unreachable;
  }
  // Who was never heard may be out of reach: that is told, but no reason to end a run.
  if (r.known && settings_.limit_seconds > 0 && silent >= settings_.limit_seconds) {
    r.over = true;
    return Change::over;
  }
  if (r.told || silent < settings_.seconds) return Change::none;
  r.told = true;
  return Change::silent;
}

bool SilenceTable::anyone_is_silent() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.told && r.known && !r.ended; });
}

void SilenceTable::forgive(double now) {
  for (Rank& r : ranks_) r.last = now;
}

void Standstill::seen(int rank, std::int64_t moves, double now) {
  std::int64_t& known = moves_[static_cast<std::size_t>(rank)];
  if (moves == known) return;
  known = moves;
  moved_ = now;
}

Standstill::Change Standstill::judge(double now) {
  if (told_since_ >= 0 && moved_ != told_since_) {
    told_since_ = -1;
    return Change::moving;
  }
  if (told_since_ >= 0 || duration(now) < seconds_) return Change::none;
  told_since_ = moved_;
  return Change::still;
}

std::string whereabouts(const std::vector<std::string>& sections, const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < sections.size(); ++r) ranks[sections[r]].push_back(static_cast<int>(r));
  std::vector<std::pair<std::string, std::vector<int>>> groups(ranks.begin(), ranks.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text;
  for (const auto& [section, members] : groups) {
    if (!text.empty()) text += ", ";
    const auto first = static_cast<std::size_t>(members.front());
    text += members.size() > 1 ? "ranks " + core::ranges_text(members) + " are"
                               : "rank " + std::to_string(first) + " on " + core::printable(hosts[first], 80) + " is";
    text += " in \"" + core::printable(section, 40) + '"';
  }
  return text;
}

struct Watchdog::State {
  State(const WatchdogSettings& given, comm::Communicator& group, const core::Activity& what, core::Log& told,
        const FailureMark& failure)
      : settings(given),
        rank(group.rank()),
        ranks(group.size()),
        activity(what),
        log(told),
        mark(failure),
        hosts(group.all_gather(io::host_name())),
        heartbeat(comm::Heartbeat::make(group)),
        table(given, group.size(), 0),
        standstill(given.seconds, group.size(), 0),
        last(static_cast<std::size_t>(group.size())) {}

  double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  void run();
  void heard(int who, const SignOfLife& sign);
  void judge(int who);
  void judge_standstill();
  void tell(const std::string& text);
  [[noreturn]] void end(const std::string& text);
  SignOfLife own(bool ends) const;
  std::string name(int who) const;
  std::string last_words(int who) const;

  WatchdogSettings settings;
  int rank, ranks;
  const core::Activity& activity;
  core::Log& log;
  const FailureMark& mark;
  std::vector<std::string> hosts;
  std::unique_ptr<comm::Heartbeat> heartbeat;  // null where there are no sockets
  Clock::time_point begin = Clock::now();
  SilenceTable table;
  Standstill standstill;         // on rank 0
  std::vector<SignOfLife> last;  // of each rank
  std::atomic<bool> ending = false;
  std::thread thread;
};

SignOfLife Watchdog::State::own(bool ends) const {
  SignOfLife sign{.step = activity.step(), .section = {}, .ended = ends ? 1 : 0, .moves = activity.moves()};
  std::strncpy(sign.section, activity.section(), sizeof sign.section - 1);
  return sign;
}

std::string Watchdog::State::name(int who) const {
  return "rank " + std::to_string(who) + " on " + core::printable(hosts[static_cast<std::size_t>(who)], 80);
}

std::string Watchdog::State::last_words(int who) const {
  const SignOfLife& sign = last[static_cast<std::size_t>(who)];
  return "it had finished step " + core::with_commas(sign.step) + " and was in \"" + core::printable(sign.section, 40) +
         "\"";
}

/// Rank 0 through the log. Where rank 0 is the silent one, rank 1 speaks, and the last rank if it is on another node.
void Watchdog::State::tell(const std::string& text) {
  if (rank == 0) return log.warning(text);
  const std::size_t own_place = static_cast<std::size_t>(rank);
  if (rank != 1 && (rank != ranks - 1 || hosts[own_place] == hosts[1])) return;
  const std::string line = "warning: " + text + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void Watchdog::State::end(const std::string& text) {
  // Of those that find rank 0 silent, rank 1 speaks and ends them all; the others only where it has not.
  constexpr auto grace = std::chrono::seconds(2);
  if (rank > 1) std::this_thread::sleep_for(grace);
  if (rank == 0) log.file_only("error: " + text);
  report(core::Error(core::ExitCode::communication, text), rank);
  mark.leave();
  comm::abort_all_ranks(static_cast<int>(core::ExitCode::communication));
}

void Watchdog::State::heard(int who, const SignOfLife& sign) {
  const double silent = table.silence(who, now());
  if (table.heard(who, now()) == SilenceTable::Change::back) {
    tell(name(who) + " is back after " + core::format_duration(silent) + " without a heartbeat: the run continues.");
  }
  last[static_cast<std::size_t>(who)] = sign;
  standstill.seen(who, sign.moves, now());
  if (sign.ended != 0) table.ended(who);
}

void Watchdog::State::judge(int who) {
  const bool known = table.known(who);
  const double silent = table.silence(who, now());
  const double unheard = table.unheard(who, now());
  const std::string since = name(who) + " has sent no heartbeat for " + core::format_duration(silent);
  switch (table.judge(who, now(), activity.step())) {
    case SilenceTable::Change::unreachable:
      return tell(
          "the datagrams (UDP over IPv4) of " + name(who) + " have not reached " + name(rank) + " for " +
          core::format_duration(unheard) +
          ", though it takes part in every step: the run continues, and that rank is not monitored until one arrives.");
    case SilenceTable::Change::silent:
      if (!known) {
        return tell("the watchdog has received nothing from " + name(who) +
                    " yet: either it was stopped, or its datagrams (UDP over IPv4) do not reach " + name(rank) +
                    ". It is not monitored until one arrives.");
      }
      return tell(since + "; " + last_words(who) +
                  ". Its process may have been stopped (SIGSTOP, a debugger), or its node hangs. The run waits for it" +
                  (settings.limit_seconds > 0 ? ", for " + core::format_duration(settings.limit_seconds) +
                                                    " in all ([run] watchdog_limit_seconds)."
                                              : "."));
    case SilenceTable::Change::over:
      end(since + " ([run] watchdog_limit_seconds): the run is ended. At its last heartbeat " + last_words(who) +
          ". If it was stopped on purpose, raise that limit; else exclude its node. Submit again: the run resumes from "
          "its last checkpoint.");
    default:
      return;
  }
}

/// Before the first section all ranks may be busy with one thing for long: they read and check files.
void Watchdog::State::judge_standstill() {
  last[0] = own(false);
  standstill.seen(0, last[0].moves, now());
  if (table.anyone_is_silent() || std::strcmp(last[0].section, core::Activity::first_section) == 0) {
    return standstill.forgive(now());
  }
  const double since = standstill.duration(now());
  switch (standstill.judge(now())) {
    case Standstill::Change::still: {
      std::vector<std::string> sections;
      for (const SignOfLife& sign : last) sections.emplace_back(sign.section);
      return log.warning_at_once("no rank has made progress for " + core::format_duration(since) + " after step " +
                                 core::with_commas(last[0].step) + ": " + whereabouts(sections, hosts) +
                                 ". All processes are alive: a file system or the network may hang. The run waits.");
    }
    case Standstill::Change::moving:
      return log.warning_at_once("the ranks make progress again.");
    default:
      return;
  }
}

void Watchdog::State::run() {
  // A dozen signs until a rank is named, so that datagrams may be lost, but not so many that rank 0 feels them.
  const double interval = std::clamp(settings.seconds / 12, 0.05, 5.0);
  const auto pause = std::chrono::milliseconds(static_cast<std::int64_t>(interval * 1000));
  const comm::Heartbeat::Heard hears = [this](int who, const SignOfLife& sign) { heard(who, sign); };
  double woke = now();
  while (!ending) {
    if (rank != 0) heartbeat->send(own(false));
    heartbeat->listen(pause, own(false), hears);
    // All of the job may have been suspended, this process with it.
    if (now() - woke > settings.seconds / 2) {
      table.forgive(now());
      standstill.forgive(now());
      heartbeat->listen(std::chrono::milliseconds(0), own(false), hears);
    }
    woke = now();
    if (rank != 0) {
      if (table.known(0)) judge(0);
      continue;
    }
    for (int who = 1; who < ranks; ++who) judge(who);
    judge_standstill();
  }
  for (int i = 0; i < 3; ++i) heartbeat->send(own(true));
}

Watchdog::Watchdog(const WatchdogSettings& settings, comm::Communicator& world, const core::Activity& activity,
                   core::Log& log, const FailureMark& mark) {
  if (world.size() == 1 || settings.seconds <= 0) return;
  state_ = std::make_unique<State>(settings, world, activity, log, mark);
  if (!state_->heartbeat) {
    log.warning("a rank cannot open a socket (UDP over IPv4): the watchdog is off, so stopped ranks are not reported.");
    state_.reset();
    return;
  }
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Watchdog::~Watchdog() {
  if (!state_) return;
  state_->ending = true;
  state_->heartbeat->wake();
  state_->thread.join();
}

}  // namespace bert_hpc::app
