import CommandSupport
import Testing

/// The layout of help texts.
@Suite struct HelpTextTests {
    @Test func `wraps paragraphs, lists and labeled texts with their indentation`() {
        let help = """
            OVERVIEW: one two three four

            - five six seven eight nine ten

              --flag <value>  nine ten eleven
              twelve thirteen fourteen
            USAGE: sluice run [--reason <text>] <name>
            """
        let wrapped = """
            OVERVIEW: one two three
            four

            - five six seven eight
              nine ten

              --flag <value>  nine
                              ten
                              eleven
              twelve thirteen
              fourteen
            USAGE: sluice run
                   [--reason <text>]
                   <name>
            """
        #expect(HelpText.wrapped(help, columns: 24) == wrapped)
    }

    @Test func `keeps the lines of examples`() {
        let help = "EXAMPLES\n  sluice run one two\n\n  sluice run three four\n\nfive six seven eight"
        #expect(
            HelpText.wrapped(help, columns: 15)
                == "EXAMPLES\n  sluice run one two\n\n  sluice run three four\n\nfive six seven\neight"
        )
    }

    @Test func `leaves error messages as they are`() {
        let message = "Error: " + String(repeating: "word ", count: 100)
        #expect(HelpText.wrapped(from: message) == message)
    }

    @Test func `lists a command's exit codes with the usual ones`() {
        #expect(
            HelpText.exitCodes([75: "Try again later."])
                == """


                EXIT CODES
                  0   Success.
                  1   Failure; standard error has the reason.
                  64  Wrong usage.
                  69  The database is unreachable.
                  75  Try again later.
                  78  The configuration is invalid.
                """
        )
        #expect(!HelpText.exitCodes([:], usesDatabase: false).contains("69"))
        #expect(
            HelpText.failure("The user does not exist", "it was erased")
                == "The user does not exist, it was erased, or another failure; standard error has the reason."
        )
    }
}
