#include "app/run/watchdog.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "app/run/collective.hpp"
#include "bert_hpc/comm/heartbeat.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {

using Clock = std::chrono::steady_clock;
using comm::HeartbeatState;

LivenessTable::LivenessTable(const WatchdogSettings& settings, int ranks, double now)
    : settings_(settings), ranks_(static_cast<std::size_t>(ranks)) {
  forgive(now);
}

LivenessTable::Change LivenessTable::heard(int rank, double now) {
  Rank& r = of(rank);
  const bool was_named = r.reported && r.known;
  r.last = now;
  r.known = true;
  r.reported = false;
  return was_named ? Change::back : Change::none;
}

void LivenessTable::ended(int rank) {
  of(rank).ended = true;
}

LivenessTable::Change LivenessTable::judge(int rank, double now, std::int64_t step) {
  Rank& r = of(rank);
  if (r.ended || r.over) return Change::none;
  // It may have finished its part of one step before its last heartbeat, but not of two.
  constexpr std::int64_t enough = 2;
  if (step >= r.step + enough) {
    r.step = step;
    r.took_part = now;
  }
  const double silent = silence(rank, now);
  // A single step after its last heartbeat is no evidence, as heartbeats are rarer than steps.
  if (r.known && r.took_part - r.last >= settings_.seconds) {
    r.known = false;
    r.reported = true;
    return Change::unreachable;
  }
  // A rank that was never heard may be unreachable: that is reported, but does not end the run.
  if (r.known && settings_.limit_seconds > 0 && silent >= settings_.limit_seconds) {
    r.over = true;
    return Change::over;
  }
  if (r.reported || silent < settings_.seconds) return Change::none;
  r.reported = true;
  return Change::silent;
}

bool LivenessTable::anyone_is_silent() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.reported && r.known && !r.ended; });
}

void LivenessTable::forgive(double now) {
  for (Rank& r : ranks_) r.last = now;
}

void GlobalStall::seen(int rank, std::int64_t moves, double now) {
  std::int64_t& known = moves_[static_cast<std::size_t>(rank)];
  if (moves == known) return;
  known = moves;
  moved_ = now;
}

GlobalStall::Change GlobalStall::judge(double now) {
  if (reported_since_ >= 0 && moved_ != reported_since_) {
    reported_since_ = -1;
    return Change::moving;
  }
  if (reported_since_ >= 0 || duration(now) < seconds_) return Change::none;
  reported_since_ = moved_;
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
  State(const WatchdogSettings& given, comm::Communicator& group, const core::Activity& what, core::Log& run_log,
        const FailureMark& failure)
      : settings(given),
        rank(group.rank()),
        ranks(group.size()),
        activity(what),
        log(run_log),
        mark(failure),
        hosts(group.all_gather(io::host_name())),
        heartbeat(comm::Heartbeat::make(group)),
        table(given, group.size(), 0),
        stall(given.seconds, group.size(), 0),
        last(static_cast<std::size_t>(group.size())) {}

  double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  void run();
  void heard(int peer, const HeartbeatState& sign);
  void judge(int peer);
  void judge_stall();
  void notify(const std::string& text);
  [[noreturn]] void end(const std::string& text);
  HeartbeatState own(bool ends) const;
  std::string name(int peer) const;
  std::string last_state(int peer) const;

  WatchdogSettings settings;
  int rank, ranks;
  const core::Activity& activity;
  core::Log& log;
  const FailureMark& mark;
  std::vector<std::string> hosts;
  std::unique_ptr<comm::Heartbeat> heartbeat;  // null if there are no sockets
  Clock::time_point begin = Clock::now();
  LivenessTable table;
  GlobalStall stall;                 // on rank 0
  std::vector<HeartbeatState> last;  // of each rank
  std::atomic<bool> ending = false;
  std::thread thread;
};

HeartbeatState Watchdog::State::own(bool ends) const {
  HeartbeatState sign{.step = activity.step(), .section = {}, .ended = ends ? 1 : 0, .moves = activity.moves()};
  std::strncpy(sign.section, activity.section(), sizeof sign.section - 1);
  return sign;
}

std::string Watchdog::State::name(int peer) const {
  return "rank " + std::to_string(peer) + " on " + core::printable(hosts[static_cast<std::size_t>(peer)], 80);
}

std::string Watchdog::State::last_state(int peer) const {
  const HeartbeatState& sign = last[static_cast<std::size_t>(peer)];
  return "it had finished step " + core::with_commas(sign.step) + " and was in \"" + core::printable(sign.section, 40) +
         "\"";
}

/// Rank 0 writes to the log. If rank 0 is silent, rank 1 reports, and so does the last rank if it is on another node.
void Watchdog::State::notify(const std::string& text) {
  if (rank == 0) return log.warning(text);
  const auto own = static_cast<std::size_t>(rank);
  if (rank != 1 && (rank != ranks - 1 || hosts[own] == hosts[1])) return;
  const std::string line = "warning: " + text + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void Watchdog::State::end(const std::string& text) {
  // If ranks find rank 0 silent, rank 1 reports and ends all ranks; the others do so if rank 1 has not.
  // mpirun kills a rank a second after SIGTERM, which a rank takes for "stop at the next step", and later under load.
  constexpr auto grace = std::chrono::seconds(5);
  if (rank > 1) std::this_thread::sleep_for(grace);
  if (rank == 0) log.file_only("error: " + text);
  report(core::Error(core::ExitCode::communication, text), rank);
  mark.leave();
  comm::abort_all_ranks(static_cast<int>(core::ExitCode::communication));
}

void Watchdog::State::heard(int peer, const HeartbeatState& sign) {
  const double silent = table.silence(peer, now());
  if (table.heard(peer, now()) == LivenessTable::Change::back) {
    notify(name(peer) + " is back after " + core::format_duration(silent) + " without a heartbeat: the run continues.");
  }
  last[static_cast<std::size_t>(peer)] = sign;
  stall.seen(peer, sign.moves, now());
  if (sign.ended != 0) table.ended(peer);
}

void Watchdog::State::judge(int peer) {
  const bool known = table.known(peer);
  const double silent = table.silence(peer, now());
  const double unheard = table.unheard(peer, now());
  const std::string since = name(peer) + " has sent no heartbeat for " + core::format_duration(silent);
  switch (table.judge(peer, now(), activity.step())) {
    case LivenessTable::Change::unreachable:
      return notify(
          "the datagrams (UDP over IPv4) of " + name(peer) + " have not reached " + name(rank) + " for " +
          core::format_duration(unheard) +
          ", though it takes part in every step: the run continues, and that rank is not monitored until one arrives.");
    case LivenessTable::Change::silent:
      if (!known) {
        return notify("the watchdog has received nothing from " + name(peer) +
                      " yet: either it was stopped, or its datagrams (UDP over IPv4) do not reach " + name(rank) +
                      ". It is not monitored until one arrives.");
      }
      return notify(
          since + "; " + last_state(peer) +
          ". Its process may have been stopped (SIGSTOP, a debugger), or its node hangs. The run waits for it" +
          (settings.limit_seconds > 0
               ? ", for " + core::format_duration(settings.limit_seconds) + " in all ([run] watchdog_limit_seconds)."
               : "."));
    case LivenessTable::Change::over:
      end(since + " ([run] watchdog_limit_seconds): the run is ended. At its last heartbeat " + last_state(peer) +
          ". If it was stopped on purpose, raise that limit; else exclude its node. Submit again: the run resumes from "
          "its last checkpoint.");
    default:
      return;
  }
}

/// Before the first step all ranks may be in one section for long: they read and check files.
void Watchdog::State::judge_stall() {
  last[0] = own(false);
  stall.seen(0, last[0].moves, now());
  if (table.anyone_is_silent() || std::strcmp(last[0].section, core::Activity::first_section) == 0) {
    return stall.forgive(now());
  }
  const double since = stall.duration(now());
  switch (stall.judge(now())) {
    case GlobalStall::Change::still: {
      std::vector<std::string> sections;
      for (const HeartbeatState& sign : last) sections.emplace_back(sign.section);
      return log.warning_at_once("no rank has made progress for " + core::format_duration(since) + " after step " +
                                 core::with_commas(last[0].step) + ": " + whereabouts(sections, hosts) +
                                 ". All processes are alive: a file system or the network may hang. The run waits.");
    }
    case GlobalStall::Change::moving:
      return log.warning_at_once("the ranks make progress again.");
    default:
      return;
  }
}

void Watchdog::State::run() {
  ::pthread_setname_np(::pthread_self(), "watchdog");  // for debuggers
  // A dozen heartbeats until a rank is reported, as datagrams may be lost, but not so many that rank 0 is slowed down.
  const double interval = std::clamp(settings.seconds / 12, 0.05, 5.0);
  const auto pause = std::chrono::milliseconds(static_cast<std::int64_t>(interval * 1000));
  const comm::Heartbeat::Heard hears = [this](int peer, const HeartbeatState& sign) { heard(peer, sign); };
  double woke = now();
  while (!ending) {
    if (rank != 0) heartbeat->send(own(false));
    heartbeat->listen(pause, own(false), hears);
    // The whole job may have been suspended, and this process with it.
    if (now() - woke > settings.seconds / 2) {
      table.forgive(now());
      stall.forgive(now());
      heartbeat->listen(std::chrono::milliseconds(0), own(false), hears);
    }
    woke = now();
    if (rank != 0) {
      if (table.known(0)) judge(0);
      continue;
    }
    for (int peer = 1; peer < ranks; ++peer) judge(peer);
    judge_stall();
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
