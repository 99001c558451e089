// pgx with an OAuth token, which it reads from standard input: prints who it is, or the error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	config, err := pgx.ParseConfig("")
	if err != nil {
		panic(err)
	}
	config.OAuthTokenProvider = func(context.Context) (string, error) {
		token, err := io.ReadAll(os.Stdin)
		return strings.TrimSpace(string(token)), err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	defer conn.Close(ctx)
	var user string
	if err := conn.QueryRow(ctx, "select current_user").Scan(&user); err != nil {
		panic(err)
	}
	fmt.Println(user)
}
