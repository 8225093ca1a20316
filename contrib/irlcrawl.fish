# Completion for fish: put this file into ~/.config/fish/completions.
# Verbs and options are asked of irlcrawl itself, once a shell.

function __irlcrawl_verbs
    if not set -q __irlcrawl_known_verbs
        set -g __irlcrawl_known_verbs (irlcrawl help 2>/dev/null | string replace -rf '^  ([a-z][a-z-]*) +(.*)$' '$1\t$2')
    end
    printf '%s\n' $__irlcrawl_known_verbs
end

function __irlcrawl_options
    set -l verb (commandline -opc)[2]
    set -l known __irlcrawl_options_(string replace -a - _ -- $verb)
    if not set -q $known
        set -g $known (irlcrawl $verb --help 2>/dev/null | string match -rag -- '(--[a-z][a-z-]+)' | sort -u)
    end
    printf '%s\n' $$known
end

function __irlcrawl_wants_option
    string match -q -- '-*' (commandline -ct)
end

complete -c irlcrawl -n __fish_is_first_token -f -a '(__irlcrawl_verbs)'
complete -c irlcrawl -n 'not __fish_is_first_token; and __irlcrawl_wants_option' -f -a '(__irlcrawl_options)'
