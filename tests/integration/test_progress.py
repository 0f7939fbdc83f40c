"""The progress bar as a user sees it: under mpirun on terminals of several widths, and lines without a terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from program import BUILD, MPIRUN, Case


class Screen:
    """The content of a terminal of this width: carriage return, line feed, wrapping, "clear to the line's end"."""

    def __init__(self, columns):
        self.columns, self.lines, self.column = columns, [""], 0
        self.wrapped = 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[K|[\r\n]|[^\r\n\x1b]|\x1b.?", text):
            if part == "\x1b[K":
                self.lines[-1] = self.lines[-1][: self.column]
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
                self.column = 0
            elif part.startswith("\x1b"):
                raise AssertionError(f"an escape sequence that is not expected: {part!r}")
            else:
                if self.column == self.columns:
                    self.lines.append("")
                    self.column = 0
                    self.wrapped += 1
                line = self.lines[-1].ljust(self.column)
                self.lines[-1] = line[: self.column] + part + line[self.column + 1 :]
                self.column += 1


class Progress(Case):
    def setUp(self):
        # A bar is drawn every 0.2 s: 40 steps of at least 0.05 s take at least ten drawings, however fast the processor is.
        self.path = self.work.input(schedule={"epochs": None, "steps": 40}, log={"every_steps": 10, "progress": "auto"},
                                    debug={"step_delay_seconds": 0.05})

    def command(self, *wrapper):
        return [MPIRUN, "-n", "2", *wrapper, str(BUILD / "bert_hpc"), str(self.path), "--overwrite"]

    def on_terminal(self, columns, command, terminal="xterm", resized=None):
        """All bytes that the terminal gets. resized: its columns after the first drawing."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = dict(os.environ, TERM=terminal, OMP_NUM_THREADS="1")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment,
                                   start_new_session=True)
        os.close(slave)
        received = b""
        while True:
            try:
                some = os.read(master, 1 << 16)
            except OSError:  # Linux's end of file on a terminal that all processes have closed
                some = b""
            if not some:
                break
            received += some
            if resized and b"\x1b[K" in received:
                fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, resized, 0, 0))
        os.close(master)
        self.assertEqual(process.wait(), 0, received.decode(errors="replace"))
        return received.decode()

    def check_bar(self, columns, *wrapper):
        text = self.on_terminal(columns, self.command(*wrapper))
        after = text[text.index("ready after") :]
        drawings = re.findall(r"\r( *\d+%[^\r\n\x1b]*)\x1b\[K", after)
        self.assertGreater(len(drawings), 1, after)
        for drawing in drawings:
            self.assertLess(len(drawing), columns)
        screen = Screen(columns)
        screen.feed(after)
        # No part of the bar is left, and the log lines instead of it are complete.
        shown = "\n".join(line.rstrip() for line in screen.lines)
        self.assertNotRegex(shown, r"\d%  ?(\[|loss)")
        self.assertNotIn("#", shown)
        self.assertIn("\nvalidation at step", shown)
        self.assertNotIn("\nstep ", shown)  # lines go to the log file, beside the bar
        log = (self.work.folder / "run/log.txt").read_text()
        self.assertIn("\nstep 20/40", log)
        self.assertNotIn("\r", log)
        self.assertNotIn("\x1b", log)
        return drawings

    def test_wide_bars_are_redrawn_in_place(self):
        for columns in (80, 132):
            drawings = self.check_bar(columns)
            self.assertTrue(all("[" in drawing and "loss" in drawing for drawing in drawings), drawings)

    def test_a_narrow_terminal_gets_what_fits(self):
        self.check_bar(40)

    def test_a_window_may_be_resized(self):
        text = self.on_terminal(132, self.command(), resized=50)
        widths = [len(drawing) for drawing in re.findall(r"\r( *\d+%[^\r\n\x1b]*)\x1b\[K", text)]
        self.assertGreater(widths[0], 50)
        self.assertLess(max(widths[2:]), 50)  # the second one may be on its way already

    def test_a_wrapper_between_launcher_and_program_changes_nothing(self):
        self.check_bar(80, "sh", "-c", '"$@"; exit $?', "wrapper")

    def test_lines_without_a_terminal(self):
        for wrapper in ((), ("sh", "-c", '"$@"; exit $?', "wrapper")):
            path = self.work.folder / "output.txt"
            with open(path, "w") as file:
                done = subprocess.run(self.command(*wrapper), stdin=subprocess.DEVNULL, stdout=file, timeout=120,
                                      env=dict(os.environ, TERM="xterm"))
            self.assertEqual(done.returncode, 0)
            text = path.read_text()
            self.assertIn("\nstep 10/40", text)
            self.assertNotIn("\x1b", text)
            self.assertNotIn("%  ", text.split("Time by section")[0])

    def test_a_terminal_that_cannot_move_its_cursor_gets_lines(self):
        text = self.on_terminal(80, self.command(), terminal="dumb")
        self.assertNotIn("\x1b", text)
        self.assertIn("step 10/40", text)


if __name__ == "__main__":
    unittest.main()
