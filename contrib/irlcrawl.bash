# Completion for bash: `source contrib/irlcrawl.bash`, or put it into ~/.local/share/bash-completion/completions/irlcrawl.
# Verbs and options are asked of irlcrawl itself, once a shell.

_irlcrawl() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    declare -gA _irlcrawl_options
    if [[ -z ${_irlcrawl_verbs-} ]]; then
        _irlcrawl_verbs=$(irlcrawl help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
    fi
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$_irlcrawl_verbs" -- "$word")
    elif [[ $word == -* ]]; then
        if [[ -z ${_irlcrawl_options[$verb]-} ]]; then
            _irlcrawl_options[$verb]=$(irlcrawl "$verb" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        fi
        mapfile -t COMPREPLY < <(compgen -W "${_irlcrawl_options[$verb]}" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -o filenames -F _irlcrawl irlcrawl
